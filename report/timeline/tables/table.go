package tables

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Format of the files.
type Format string

// The formats.
const (
	CSV     Format = "csv"
	Parquet Format = "parquet"
)

// kind is the type of a column.
type kind uint8

const (
	integer kind = iota // int64
	number              // float64
	text
	truth
)

// column of a table. Fields of an optional one may be unknown.
type column struct {
	name     string
	kind     kind
	optional bool
}

// value is one field. The zero value is unknown.
type value struct {
	known bool
	i     int64 // of truths 0 or 1
	f     float64
	s     string
}

func whole(v int64) value   { return value{known: true, i: v} }
func count(v uint64) value  { return value{known: true, i: int64(min(v, 1<<63-1))} }
func share(v float64) value { return value{known: true, f: v} }
func words(v string) value  { return value{known: true, s: v} }
func yes(v bool) value      { return value{known: true, i: map[bool]int64{true: 1}[v]} }
func when(ok bool, v value) value {
	if !ok {
		return value{}
	}
	return v
}

// encoder writes the rows of one table.
type encoder interface {
	row(values []value) error
	close() error
}

// table is a file under way.
type table struct {
	encoder
	path string
	file *os.File
	rows uint64
}

// open makes the file of a table.
func (w *Writer) open(name string, columns []column) (*table, error) {
	path := filepath.Join(w.dir, name+"."+string(w.format))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	t := &table{path: path, file: f}
	if w.format == Parquet {
		t.encoder = newParquet(f, name, columns, w.version)
	} else {
		t.encoder, err = newCSV(f, columns)
	}
	return t, err
}

func (t *table) add(values ...value) error {
	t.rows++
	if err := t.row(values); err != nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	return nil
}

func (t *table) end() error {
	if t == nil {
		return nil
	}
	if err := errors.Join(t.close(), t.file.Close()); err != nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	return nil
}
