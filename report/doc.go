// Package report turns what a job left behind into one model, and writes the
// model as text, JSON or CSV.
//
//	r, err := report.Load("mpitrace-4711", report.Options{})
//	err = r.WriteText(os.Stdout, report.View{})
//
// Load streams: segments are read one by one and added up, so that a job of
// many thousand ranks takes little memory. The model is complete in itself;
// writers only choose, sort and format.
//
// The package measures nothing and opens no files but those of the result and,
// for source lines, the programs that it names.
package report
