package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mpitrace/mpitrace/segment"
)

// Pack joins all node files of a result into one file that Load reads like a
// directory. It does not replace a file. writer is the name and version of the
// program. It returns the number of processes packed and what could not be
// read.
func Pack(from, to, writer string) (processes int, problems []string, err error) {
	if _, err := os.Lstat(to); err == nil {
		return 0, nil, fmt.Errorf("%s exists already: remove it or choose another name with -o", to)
	}
	job := ""
	var records []segment.Record
	result, err := segment.WalkResult(from, func(s *segment.Segment) error {
		if job == "" {
			job = s.Header.JobID()
		}
		records = append(records, segment.Record{Kind: segment.RecordSegment, Data: s.Compact()})
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	processes = len(records)
	for _, text := range append([]segment.NamedText{{Name: "job.json", Data: result.Job}, {Name: symbolsName, Data: result.Symbols}}, result.Ledgers...) {
		if text.Data == nil {
			continue
		}
		data, err := json.Marshal(map[string]any{"name": text.Name, "content": json.RawMessage(text.Data)})
		if err != nil {
			return 0, nil, fmt.Errorf("%s: %w", text.Name, err)
		}
		records = append(records, segment.Record{Kind: segment.RecordJSON, Data: data})
	}
	if err := segment.WriteNodeFile(filepath.Clean(to), "pack", job, writer, records); err != nil {
		return 0, nil, err
	}
	return processes, result.Problems, nil
}
