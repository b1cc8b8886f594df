package report

import "strings"

// What other views of a job share with the text of a report.

// Duration writes nanoseconds with three digits and a unit: "4.56 ms".
func Duration(ns uint64) string { return duration(ns) }

// Bytes writes a size with three digits and a unit: "81.9 MB".
func Bytes(n uint64) string { return bytesText(n) }

// Count writes a count with separators, from ten million on in millions.
func Count(n uint64) string { return countText(n) }

// Percent writes a share between 0 and 1.
func Percent(share float64) string { return percent(share) }

// Sizes names a bin of sizes in bytes: "4-8 KiB".
func Sizes(from, to uint64) string { return classText(from, to) }

// Binary is a power of two of bytes: "8 KiB".
func Binary(n uint64) string { return binaryText(n) }

// RanksText is "rank 3" or "ranks 0-2,5".
func RanksText(ranks []int) string { return ranksText(ranks) }

// Bars draws values as a line of at most columns small vertical bars, the
// highest being top. Each stands for the mean of a number of neighbours.
func Bars(values []float64, top float64, columns int, ascii bool) (bars string, each int) {
	if len(values) == 0 || columns < 1 {
		return "", 0
	}
	v := View{ASCII: ascii}
	folded, each := fold(values, columns)
	return v.spark(folded, top), each
}

// Place is the place of a site: file and line, or else module and offset, and
// the function around it.
func (r *Report) Place(s *Site) string { return r.place(s) }

// LastRank is the rank that is last to arrive most often; false if none is
// known to be.
func (a *Arrival) LastRank() (ArrivalRank, bool) { return a.lastRank() }

// Deadlock is the finding that ranks wait for each other in a ring, empty if
// they do not.
func (r *Report) Deadlock() string {
	for _, text := range r.Findings {
		if strings.HasPrefix(text, deadlock) {
			return text
		}
	}
	return ""
}

// OneRank is the set of one rank.
func OneRank(rank int) Ranges { return Ranges{{rank, rank}} }
