// Command arrow reads Parquet files with Apache Arrow's implementation, which
// shares no code with the one that mpitrace writes with, and prints for each
// column: file, rows, name, type, encodings, nulls, and the sum of its numbers
// or of the lengths of its texts.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
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
	reader, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	table, err := reader.ReadTable(context.Background())
	if err != nil {
		return err
	}
	defer table.Release()
	for i := range int(table.NumCols()) {
		column := table.Column(i)
		nulls, sum := 0, 0.0
		for _, chunk := range column.Data().Chunks() {
			nulls += chunk.NullN()
			sum += sumOf(chunk)
		}
		fmt.Printf("%s\t%d\t%s\t%s\t%s\t%d\t%.6f\n", path, table.NumRows(), column.Name(), column.DataType(), encodings(f, i), nulls, sum)
	}
	return nil
}

func sumOf(chunk arrow.Array) (sum float64) {
	for i := range chunk.Len() {
		if chunk.IsNull(i) {
			continue
		}
		switch c := chunk.(type) {
		case *array.Int64:
			sum += float64(c.Value(i))
		case *array.Float64:
			sum += c.Value(i)
		case *array.String:
			sum += float64(len(c.Value(i)))
		case *array.Boolean:
			if c.Value(i) {
				sum++
			}
		}
	}
	return sum
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
