// Package tables writes a timeline as tables: CSV (RFC 4180) or Apache Parquet,
// the same tables with the same columns in both.
//
//	w := tables.New(dir, tables.CSV, "1.0")
//	summary, err := timeline.Export(ctx, "mpitrace-4711", w, timeline.Options{})
//
// With a trace: calls, messages, requests. Always: ranks, sites, collectives.
// Without a trace: the tables of the report, from the same place as those of
// mpitrace report --csv.
//
// A column is an integer, a number, a text or a truth value, and says its unit
// in its name; an empty field is not known. Parquet has row groups of at most
// rowGroup rows, dictionaries for texts, and Snappy compression.
//
// It must not contain: reading of traces, figures of its own.
package tables
