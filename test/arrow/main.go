// Command arrow reads Parquet files with Apache Arrow's implementation, which
// shares no code with the one that mpitrace writes with, and prints for each
// column: file, rows, name, type, encodings, nulls, and the sum of its numbers
// or of the lengths of its texts.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

func main() {
	for _, path := range os.Args[1:] {
		if err := show(path); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

func show(path string) error {
	f, err := file.OpenParquetFile(path, false)
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range f.MetaData().Schema.NumColumns() {
		c := f.MetaData().Schema.Column(i)
		sum, values := 0.0, int64(0)
		for g := range f.NumRowGroups() {
			chunk, err := f.RowGroup(g).Column(i)
			if err != nil {
				return err
			}
			more, n, err := sumOf(chunk)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Name(), err)
			}
			sum, values = sum+more, values+n
		}
		fmt.Printf("%s\t%d\t%s\t%s\t%s\t%d\t%.6f\n", path, f.NumRows(), c.Name(), kindOf(c), encodings(f, i), f.NumRows()-values, sum)
	}
	return nil
}

// kindOf is the type of a column as Arrow calls it.
func kindOf(c *schema.Column) string {
	switch {
	case c.LogicalType().Equals(schema.StringLogicalType{}):
		return "utf8"
	case c.PhysicalType() == parquet.Types.Double:
		return "float64"
	case c.PhysicalType() == parquet.Types.Boolean:
		return "bool"
	}
	return strings.ToLower(c.PhysicalType().String())
}

// sumOf is the sum of a chunk of a column, and how many values it has.
func sumOf(chunk file.ColumnChunkReader) (sum float64, values int64, err error) {
	switch r := chunk.(type) {
	case *file.Int64ColumnChunkReader:
		return sumOfBatches(r, func(v int64) float64 { return float64(v) })
	case *file.Float64ColumnChunkReader:
		return sumOfBatches(r, func(v float64) float64 { return v })
	case *file.ByteArrayColumnChunkReader:
		return sumOfBatches(r, func(v parquet.ByteArray) float64 { return float64(len(v)) })
	case *file.BooleanColumnChunkReader:
		return sumOfBatches(r, func(v bool) float64 {
			if v {
				return 1
			}
			return 0
		})
	}
	return 0, 0, fmt.Errorf("no column of mpitrace is of type %v", chunk.Type())
}

// reader reads values of a chunk, and levels: 0 is a row without a value.
type reader[V any] interface {
	HasNext() bool
	ReadBatch(rows int64, values []V, definitions, repetitions []int16) (total int64, read int, err error)
}

func sumOfBatches[V any](r reader[V], worth func(V) float64) (sum float64, values int64, err error) {
	batch, levels := make([]V, 1024), make([]int16, 1024)
	for r.HasNext() {
		_, read, err := r.ReadBatch(int64(len(batch)), batch, levels, nil)
		if err != nil {
			return 0, 0, err
		}
		for _, v := range batch[:read] {
			sum += worth(v)
		}
		values += int64(read)
	}
	return sum, values, nil
}

// encodings is the row groups and the encodings of a column in the first.
func encodings(f *file.Reader, i int) string {
	if f.NumRowGroups() == 0 {
		return "0"
	}
	chunk, err := f.MetaData().RowGroup(0).ColumnChunk(i)
	if err != nil {
		return err.Error()
	}
	out := []string{fmt.Sprint(f.NumRowGroups())}
	for _, e := range chunk.Encodings() {
		out = append(out, e.String())
	}
	return strings.Join(out, " ")
}
