//go:build cgo

// Command archive is no command: it is the Go half of the registration cache as
// an archive (go build -buildmode=c-archive), for programs in C that have nothing
// else of Go in them: tests and benchmarks.
package main

import _ "github.com/mpitrace/mpitrace/shim/regservice"

func main() {}
