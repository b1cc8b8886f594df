package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Ranges is a set of ranks as the user gave it: "0,4-7". Nil holds all.
type Ranges []span

type span struct{ first, last int }

// ParseRanges reads a list of ranks and ranges.
func ParseRanges(text string) (Ranges, error) {
	if text == "" {
		return nil, nil
	}
	var out Ranges
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		a, err := strconv.Atoi(first)
		b := a
		if err == nil && isRange {
			b, err = strconv.Atoi(last)
		}
		if err != nil || a < 0 || b < a {
			return nil, fmt.Errorf("ranks %q: %q is neither a rank nor a range such as 4-7", text, part)
		}
		out = append(out, span{a, b})
	}
	return out, nil
}

// Has tells whether a rank belongs to the set.
func (r Ranges) Has(rank int) bool {
	return r == nil || slices.ContainsFunc(r, func(s span) bool { return s.first <= rank && rank <= s.last })
}

// formatRanks writes ranks as "0-2,5", at most limit ranges.
func formatRanks(ranks []int, limit int) string {
	ranks = slices.Clone(ranks)
	slices.Sort(ranks)
	ranks = slices.Compact(ranks)
	var parts []string
	for i := 0; i < len(ranks); {
		if ranks[i] < 0 {
			parts = append(parts, "not numbered yet")
			i++
			continue
		}
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		if len(parts) == limit {
			return strings.Join(parts, ",") + fmt.Sprintf(",… (%d)", len(ranks))
		}
		if j > i+1 {
			parts = append(parts, fmt.Sprintf("%d-%d", ranks[i], ranks[j]))
			i = j + 1
			continue
		}
		parts = append(parts, strconv.Itoa(ranks[i]))
		i++
	}
	return strings.Join(parts, ",")
}

// ranksText is "rank 3" or "ranks 0-2,5".
func ranksText(ranks []int) string {
	if len(ranks) == 1 && ranks[0] >= 0 {
		return "rank " + strconv.Itoa(ranks[0])
	}
	return "ranks " + formatRanks(ranks, 6)
}
