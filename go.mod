module github.com/mpitrace/mpitrace

go 1.26
