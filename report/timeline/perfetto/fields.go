package perfetto

import "google.golang.org/protobuf/encoding/protowire"

// Field numbers of the trace format, from protos/perfetto/trace of the project
// Perfetto: facts, which never change once published.
const (
	// message Trace
	tracePacket protowire.Number = 1

	// message TracePacket
	packetClockSnapshot protowire.Number = 6
	packetTimestamp     protowire.Number = 8
	packetSequence      protowire.Number = 10
	packetTrackEvent    protowire.Number = 11
	packetInterned      protowire.Number = 12
	packetFlags         protowire.Number = 13
	packetDescriptor    protowire.Number = 60

	// enum TracePacket.SequenceFlags
	flagCleared = 1 // interned data begins anew
	flagNeeds   = 2 // interned data is referred to

	// message ClockSnapshot, message ClockSnapshot.Clock
	snapshotClock  protowire.Number = 1
	clockID        protowire.Number = 1
	clockTimestamp protowire.Number = 2
	clockRealtime                   = 1
	clockBoottime                   = 6 // of timestamps that name no clock

	// message TrackDescriptor
	trackUUID            protowire.Number = 1
	trackName            protowire.Number = 2
	trackProcess         protowire.Number = 3
	trackThread          protowire.Number = 4
	trackParent          protowire.Number = 5
	trackCounter         protowire.Number = 8
	trackChildOrdering   protowire.Number = 11
	trackOrderRank       protowire.Number = 12
	trackMerge           protowire.Number = 15
	trackProcessOrdering protowire.Number = 19
	orderingExplicit                      = 1 // of processes
	childrenExplicit                      = 3
	mergeByName                           = 1

	// message ProcessDescriptor, ThreadDescriptor, CounterDescriptor
	processPID       protowire.Number = 1
	processSortIndex protowire.Number = 3
	processName      protowire.Number = 6
	processLabels    protowire.Number = 8
	threadPID        protowire.Number = 1
	threadTID        protowire.Number = 2
	threadName       protowire.Number = 5
	counterUnitName  protowire.Number = 6

	// message TrackEvent
	eventCategoryIID protowire.Number = 3
	eventAnnotation  protowire.Number = 4
	eventType        protowire.Number = 9
	eventNameIID     protowire.Number = 10
	eventTrack       protowire.Number = 11
	eventName        protowire.Number = 23
	eventLocationIID protowire.Number = 34
	eventDouble      protowire.Number = 44
	eventFlow        protowire.Number = 47 // fixed64
	eventFlowEnd     protowire.Number = 48 // fixed64
	typeBegin                         = 1
	typeEnd                           = 2
	typeCounter                       = 4

	// message DebugAnnotation
	annotationNameIID protowire.Number = 1
	annotationBool    protowire.Number = 2
	annotationUint    protowire.Number = 3
	annotationInt     protowire.Number = 4
	annotationDict    protowire.Number = 11
	annotationArray   protowire.Number = 12
	annotationTextIID protowire.Number = 17

	// message InternedData; its entries have iid 1 and name, text or file 2
	internedCategories  protowire.Number = 1
	internedNames       protowire.Number = 2
	internedAnnotations protowire.Number = 3
	internedLocations   protowire.Number = 4
	internedTexts       protowire.Number = 29
	internedIID         protowire.Number = 1
	internedText        protowire.Number = 2

	// message SourceLocation
	locationFunction protowire.Number = 3
	locationLine     protowire.Number = 4
)
