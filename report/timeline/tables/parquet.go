package tables

import (
	"fmt"
	"io"
	"reflect"

	"github.com/parquet-go/parquet-go"
)

// rowGroup bounds the rows of a row group, and so the memory of a writer.
const rowGroup = 1 << 17

// batch is how many rows are handed to the library at a time.
const batch = 512

// parquetEncoder writes Apache Parquet.
type parquetEncoder struct {
	writer  *parquet.GenericWriter[any]
	columns []column
	rows    []parquet.Row
}

func newParquet(w io.Writer, name string, columns []column, version string) *parquetEncoder {
	return &parquetEncoder{columns: columns, writer: parquet.NewGenericWriter[any](w, schemaOf(name, columns), parquet.MaxRowsPerRowGroup(rowGroup),
		parquet.Compression(&parquet.Snappy), parquet.CreatedBy("mpitrace", version, ""))}
}

// schemaOf makes the schema of a struct, which keeps the order of columns.
func schemaOf(name string, columns []column) *parquet.Schema {
	types := map[kind]reflect.Type{
		integer: reflect.TypeFor[int64](), number: reflect.TypeFor[float64](), text: reflect.TypeFor[string](), truth: reflect.TypeFor[bool](),
	}
	var fields []reflect.StructField
	for i, c := range columns {
		tag := c.name
		if c.kind == text {
			tag += ",dict"
		}
		if c.optional {
			tag += ",optional"
		}
		fields = append(fields, reflect.StructField{Name: fmt.Sprint("C", i), Type: types[c.kind], Tag: reflect.StructTag(`parquet:"` + tag + `"`)})
	}
	return parquet.NewSchema(name, parquet.SchemaOf(reflect.New(reflect.StructOf(fields)).Interface()))
}

func (e *parquetEncoder) row(values []value) error {
	n := len(e.rows)
	if n < cap(e.rows) {
		e.rows = e.rows[:n+1]
	} else {
		e.rows = append(e.rows, nil)
	}
	row := e.rows[n][:0]
	for i, v := range values {
		row = append(row, e.field(i, v))
	}
	e.rows[n] = row
	if len(e.rows) == batch {
		return e.flush()
	}
	return nil
}

func (e *parquetEncoder) field(i int, v value) parquet.Value {
	c := &e.columns[i]
	var out parquet.Value
	switch {
	case !v.known && c.optional:
		return parquet.NullValue().Level(0, 0, i)
	case c.kind == integer:
		out = parquet.Int64Value(v.i)
	case c.kind == number:
		out = parquet.DoubleValue(v.f)
	case c.kind == truth:
		out = parquet.BooleanValue(v.i != 0)
	default:
		out = parquet.ByteArrayValue([]byte(v.s))
	}
	if c.optional {
		return out.Level(0, 1, i)
	}
	return out.Level(0, 0, i)
}

func (e *parquetEncoder) flush() error {
	_, err := e.writer.WriteRows(e.rows)
	e.rows = e.rows[:0]
	return err
}

func (e *parquetEncoder) close() error {
	if err := e.flush(); err != nil {
		return err
	}
	return e.writer.Close()
}
