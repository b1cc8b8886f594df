package report

// Duration is nanoseconds with three digits and a unit: "4.56 ms".
func Duration(ns uint64) string { return duration(ns) }

// Bytes is a size with three digits, exact below 10,000: "81.9 MB".
func Bytes(n uint64) string { return bytesText(n) }

// Count is a number with separators, from ten million on in millions.
func Count(n uint64) string { return countText(n) }

// Percent is a share between 0 and 1: "9.5 %".
func Percent(share float64) string { return percent(share) }

// Sizes names a bin of sizes in bytes: "4-8 KiB".
func Sizes(from, to uint64) string { return classText(from, to) }

// Binary is a power of two of bytes: "8 KiB".
func Binary(n uint64) string { return binaryText(n) }
