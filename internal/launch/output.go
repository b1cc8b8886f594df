package launch

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// PrepareOutput makes the result directory, so that a job does not run for
// hours and find no place for its result, and tells whether it did. A
// directory that exists must be empty.
func PrepareOutput(dir string) (made bool, err error) {
	if strings.ContainsAny(dir, "\n;") {
		return false, fmt.Errorf("result directory %q: no line breaks and semicolons, please", dir)
	}
	err = os.Mkdir(dir, 0o777)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrExist):
		return false, checkEmpty(dir)
	case errors.Is(err, fs.ErrNotExist) && !exists(filepath.Dir(dir)):
		return false, fmt.Errorf("result directory %s: %s does not exist: make it, or choose another place with -o DIR", dir, filepath.Dir(dir))
	default:
		return false, fmt.Errorf("result directory %s: %w: choose a place where you may write with -o DIR", dir, unwrapped(err))
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// checkEmpty accepts an empty directory that can be written.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("result directory %s: %w: choose another with -o DIR", dir, unwrapped(err))
	}
	if len(entries) > 0 {
		return fmt.Errorf("result directory %s exists and is not empty: remove it, or choose another with -o DIR", dir)
	}
	probe, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return fmt.Errorf("result directory %s: %w: choose a place where you may write with -o DIR", dir, unwrapped(err))
	}
	probe.Close()
	return os.Remove(probe.Name())
}

// NewJobID names a job: start, host and process tell it from every other.
func NewJobID(now time.Time) string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("%s-%s-%d", now.Format("20060102-150405"), hostWord(host), os.Getpid())
}

// hostMost leaves room in the 63 bytes of a job id for what mpitrace bench appends.
const hostMost = 21

// notInJob is what no job id may hold: the library would put "_" there.
var notInJob = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// hostWord is a host in a job id: its name without the domain. What is too long
// ends with a hash of all of it, for names of hosts differ at the end.
func hostWord(host string) string {
	host, _, _ = strings.Cut(host, ".")
	word := notInJob.ReplaceAllString(host, "_")
	if len(word) <= hostMost {
		return word
	}
	hash := fnv.New32a()
	hash.Write([]byte(host))
	tail := fmt.Sprintf("-%08x", hash.Sum32())
	return word[:hostMost-len(tail)] + tail
}
