package segment

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
	"unsafe"
)

const (
	magicNodeFile = "MPITRNOD"
	magicRecord   = "MTRC"
)

// Kinds of Record.
const (
	RecordSegment = 1 // a compacted segment
	RecordJSON    = 2 // {"name": "job.json", "content": ...}
)

// NodeFileSuffix ends the name of a node file.
const NodeFileSuffix = ".mtn"

// Record is one record of a node file.
type Record struct {
	Kind uint32 // Record*
	Data []byte
}

// WriteNodeFile writes a node file under a temporary name in the directory of
// path and gives it its name when it is complete. It does not replace a file:
// if path exists the error wraps fs.ErrExist. node is the host, writer the
// name and version of the program.
func WriteNodeFile(path, node, job, writer string, records []Record) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("node file %s: %w", path, err)
	}
	defer func() {
		os.Remove(f.Name())
		if err != nil {
			err = fmt.Errorf("node file %s: %w", path, err)
		}
	}()
	err = writeRecords(f, node, job, writer, records)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	// A link, unlike a rename, cannot replace what another program put there.
	err = os.Link(f.Name(), path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, statErr := os.Lstat(path); statErr == nil {
		return fs.ErrExist
	}
	return os.Rename(f.Name(), path) // a file system without links
}

func writeRecords(w io.Writer, node, job, writer string, records []Record) error {
	file := RawNodeFile{VersionMajor: VersionMajor, VersionMinor: VersionMinor, LayoutHash: LayoutHash,
		WrittenRealtimeNS: uint64(time.Now().UnixNano())}
	copy(file.Magic[:], magicNodeFile)
	copy(file.Node[:len(file.Node)-1], node)
	copy(file.Job[:len(file.Job)-1], job)
	copy(file.Writer[:len(file.Writer)-1], writer)
	if _, err := w.Write(Encode(file)); err != nil {
		return err
	}
	for _, r := range records {
		raw := RawRecord{Kind: r.Kind, Bytes: uint64(len(r.Data)), CRC32: crc32.ChecksumIEEE(r.Data)}
		copy(raw.Magic[:], magicRecord)
		for _, part := range [][]byte{Encode(raw), r.Data, make([]byte, padding(uint64(len(r.Data))))} {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// padding is the number of zeros after n bytes of a record.
func padding(n uint64) uint64 { return -n & 7 }

// ReadNodeFile reads a node file whole. If it is damaged, the records that
// are sound are returned together with the error, which wraps ErrNotSegment,
// ErrVersion, ErrTruncated or ErrCorrupt.
func ReadNodeFile(path string) (RawNodeFile, []Record, error) {
	f, info, err := openRegular(path)
	if err != nil {
		return RawNodeFile{}, nil, err
	}
	defer f.Close()
	file, spots, problem := indexNodeFile(path, f, info.Size)
	var records []Record
	problems := []error{problem}
	for _, spot := range spots {
		data, err := spot.read(path, f)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		records = append(records, Record{spot.kind, data})
	}
	return file, records, errors.Join(problems...)
}

// recordSpot says where a record lies in its node file.
type recordSpot struct {
	offset int64 // of its bytes
	bytes  int64
	kind   uint32
	crc    uint32
}

// read returns the bytes of the record, checked.
func (r recordSpot) read(path string, f io.ReaderAt) ([]byte, error) {
	data := make([]byte, r.bytes)
	if _, err := f.ReadAt(data, r.offset); err != nil {
		return nil, fmt.Errorf("node file %s: record at byte %d: %w", path, r.offset, err)
	}
	if sum := crc32.ChecksumIEEE(data); sum != r.crc {
		return nil, fmt.Errorf("node file %s: record at byte %d has checksum %08x, should be %08x: %w", path, r.offset, sum, r.crc, ErrCorrupt)
	}
	return data, nil
}

// indexNodeFile reads the head of a node file of size bytes and finds its
// records without reading them. If the file is cut or damaged, the records
// before that place are returned with the error.
func indexNodeFile(path string, f io.ReaderAt, size int64) (RawNodeFile, []recordSpot, error) {
	file, err := readNodeHead(path, f, size)
	if err != nil {
		return file, nil, err
	}
	var spots []recordSpot
	headBytes := int64(unsafe.Sizeof(RawRecord{}))
	head := make([]byte, headBytes)
	for at := int64(unsafe.Sizeof(RawNodeFile{})); at < size; {
		fail := func(why string, wrapped error) error {
			return fmt.Errorf("node file %s: %s after %d records, at byte %d of %d: what follows is lost: %w", path, why, len(spots), at, size, wrapped)
		}
		if size-at < headBytes {
			return file, spots, fail("ends", ErrTruncated)
		}
		if _, err := f.ReadAt(head, at); err != nil {
			return file, spots, fail("cannot be read", err)
		}
		raw := decode[RawRecord](nil, head, len(head), 1)[0]
		if string(raw.Magic[:]) != magicRecord {
			return file, spots, fail("is no record", ErrCorrupt)
		}
		if raw.Bytes > uint64(size-at-headBytes) {
			return file, spots, fail("ends in a record", ErrTruncated)
		}
		spots = append(spots, recordSpot{at + headBytes, int64(raw.Bytes), raw.Kind, raw.CRC32})
		at += headBytes + int64(raw.Bytes+padding(raw.Bytes))
	}
	return file, spots, nil
}

func readNodeHead(path string, f io.ReaderAt, size int64) (RawNodeFile, error) {
	head := make([]byte, min(size, int64(unsafe.Sizeof(RawNodeFile{}))))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return RawNodeFile{}, fmt.Errorf("node file %s: %w", path, err)
	}
	if len(head) < len(magicNodeFile) || string(head[:len(magicNodeFile)]) != magicNodeFile {
		return RawNodeFile{}, fmt.Errorf("node file %s: does not begin with %s: %w", path, magicNodeFile, ErrNotSegment)
	}
	if len(head) >= 16 {
		if err := checkVersion("node file "+path, decode[uint32](nil, head[8:], 4, 1)[0]); err != nil {
			return RawNodeFile{}, err
		}
	}
	if len(head) < int(unsafe.Sizeof(RawNodeFile{})) {
		return RawNodeFile{}, fmt.Errorf("node file %s: only %d bytes: %w", path, size, ErrTruncated)
	}
	return decode[RawNodeFile](nil, head, len(head), 1)[0], nil
}
