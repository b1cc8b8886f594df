package page

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // the parts of the page
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/mpitrace/mpitrace/report"
)

var (
	//go:embed page.html
	layout string
	//go:embed page.css
	style string
	//go:embed page.js
	script string
)

// icon is the picture in the tab of a browser; without one it would ask a
// server.
const icon = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E" +
	"%3Cpath fill='%230b5fa5' d='M1 9h3v6H1zM6 4h3v11H6zM11 1h4v14h-4z'/%3E%3C/svg%3E"

var pageTemplate = template.Must(template.New("page").Parse(layout))

// rasters is how many places get a map of arrivals.
const rasters = 6

// Options of Write. The zero value is good.
type Options struct {
	Zone    *time.Location // of moments; nil: local
	Version string         // of mpitrace, said at the end
}

// Needs adds to the options of report.Load what a page shows beyond the text.
func Needs(options report.Options) report.Options {
	options.Matrix, options.Rasters = true, rasters
	return options
}

// Write writes the page. What the report was loaded without, see Needs, is
// said to be missing.
func Write(w io.Writer, r *report.Report, options Options) error {
	content, err := newContent(r, options)
	if err != nil {
		return fmt.Errorf("report as HTML: %w", err)
	}
	out := bufio.NewWriterSize(w, 1<<16)
	if err := pageTemplate.Execute(out, content); err != nil {
		return fmt.Errorf("report as HTML: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("report as HTML: %w", err)
	}
	return nil
}

// policy is the content security policy of the page: nothing is loaded, and
// nothing runs or styles but what this package holds.
func policy() string {
	return fmt.Sprintf("default-src 'none'; img-src data:; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'",
		hash(style), hash(script))
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
