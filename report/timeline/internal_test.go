package timeline

// TraceBlock is for TestBlock.
const TraceBlock = traceBlock
