package report

import "strings"

var (
	eighths = []rune(" ▏▎▍▌▋▊▉█")
	levels  = []rune("▁▂▃▄▅▆▇█")
	dumb    = []rune("_.:-=+*#")
)

// bar draws a share between 0 and 1 as a horizontal bar.
func (v *View) bar(share float64, columns int) string {
	share = max(0, min(1, share))
	if v.ASCII {
		return strings.Repeat("#", int(share*float64(columns)+0.5))
	}
	n := int(share*float64(columns)*8 + 0.5)
	if n == 0 && share > 0 {
		n = 1
	}
	text := strings.Repeat("█", n/8)
	if n%8 > 0 {
		text += string(eighths[n%8])
	}
	return text
}

// spark draws values as a line of small vertical bars, the highest being top;
// a value of 0 is blank.
func (v *View) spark(values []float64, top float64) string {
	steps := levels
	if v.ASCII {
		steps = dumb
	}
	var b strings.Builder
	for _, value := range values {
		switch {
		case value <= 0 || top <= 0:
			b.WriteByte(' ')
		default:
			b.WriteRune(steps[max(0, min(len(steps)-1, int(value/top*float64(len(steps))-0.001)))])
		}
	}
	return b.String()
}

// fold reduces values to at most columns means; each is of the given number of
// neighbours.
func fold(values []float64, columns int) (folded []float64, each int) {
	each = (len(values) + columns - 1) / columns
	for i := 0; i < len(values); i += each {
		part := values[i:min(i+each, len(values))]
		sum := 0.0
		for _, value := range part {
			sum += value
		}
		folded = append(folded, sum/float64(len(part)))
	}
	return folded, each
}
