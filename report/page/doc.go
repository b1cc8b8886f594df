// Package page writes a report as one HTML page that needs nothing else: no
// network, no font, no library. It owns the layout of the page, its style
// sheet, its script and its charts.
//
//	options := page.Needs(report.Options{})
//	r, err := report.Load("mpitrace-4711", options)
//	err = page.Write(os.Stdout, r, page.Options{})
//
// Findings, figures, tables and bar charts are HTML and SVG and are readable
// without scripts. The script sorts tables and draws the two maps, of messages
// and of arrivals, whose cells come as one block of JSON. Every text from a
// measured job is data: html/template escapes it, and the policy in the head of
// the page lets nothing run but the script of this package.
//
// This package must not contain figures that package report does not have,
// wording of findings, or reading of results.
package page
