package tables

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// csvEncoder writes RFC 4180: fields that hold a comma, a quote or a line
// break are quoted, lines end with CR LF.
type csvEncoder struct {
	out     *bufio.Writer
	columns []column
	line    []byte
}

func newCSV(w io.Writer, columns []column) (*csvEncoder, error) {
	e := &csvEncoder{out: bufio.NewWriterSize(w, 1<<16), columns: columns}
	for i, c := range columns {
		if i > 0 {
			e.line = append(e.line, ',')
		}
		e.line = appendText(e.line, c.name)
	}
	e.line = append(e.line, '\r', '\n')
	_, err := e.out.Write(e.line)
	return e, err
}

func (e *csvEncoder) row(values []value) error {
	e.line = e.line[:0]
	for i, v := range values {
		if i > 0 {
			e.line = append(e.line, ',')
		}
		if !v.known {
			continue
		}
		switch e.columns[i].kind {
		case integer:
			e.line = strconv.AppendInt(e.line, v.i, 10)
		case number:
			e.line = strconv.AppendFloat(e.line, v.f, 'f', 6, 64)
		case truth:
			e.line = strconv.AppendBool(e.line, v.i != 0)
		case text:
			e.line = appendText(e.line, v.s)
		}
	}
	e.line = append(e.line, '\r', '\n')
	_, err := e.out.Write(e.line)
	return err
}

// appendText quotes where it must be. What a spreadsheet would run as a
// formula gets an apostrophe in front, as in the tables of the report.
func appendText(line []byte, s string) []byte {
	if s != "" && strings.ContainsRune("=+@", rune(s[0])) {
		s = "'" + s
	}
	if !strings.ContainsAny(s, ",\"\r\n") {
		return append(line, s...)
	}
	line = append(line, '"')
	line = append(line, strings.ReplaceAll(s, `"`, `""`)...)
	return append(line, '"')
}

func (e *csvEncoder) close() error { return e.out.Flush() }
