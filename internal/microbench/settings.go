package microbench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kinds of values that a setting has.
const (
	kindNumber  = "number"
	kindNumbers = "numbers"
	kindSizes   = "sizes"
	kindWords   = "words"
)

// Flag is a setting as the command line offers it.
type Flag struct {
	Name, Doc string
	kind      string
	words     []string // of kindWords: what may be chosen
	one       bool     // of kindWords: exactly one
}

// Flags are the settings that a user may choose, for every benchmark that
// takes them.
var Flags = []Flag{
	{Name: "sizes", Doc: "message sizes, comma separated (8,1K,1M)", kind: kindSizes},
	{Name: "iterations", Doc: "repetitions of a point inside one run; fewer above 16 KiB, in proportion", kind: kindNumber},
	{Name: "warmup", Doc: "untimed, checked repetitions before a point, at least 8", kind: kindNumber},
	{Name: "limit-ms", Doc: "time for one point, after which it ends early", kind: kindNumber},
	{Name: "window", Doc: "bandwidth, paired: messages in a window", kind: kindNumber},
	{Name: "modes", Doc: "bandwidth: uni, bidirectional, both-way, blocking", kind: kindWords, words: []string{"uni", "bidirectional", "both-way", "blocking"}},
	{Name: "pool", Doc: "reuse, paired: most bytes of buffers in one case", kind: kindSizes},
	{Name: "buffers", Doc: "spectrum, paired: number of buffers", kind: kindNumber},
	{Name: "factors", Doc: "overlap, progress, exchange: computation in multiples of l0", kind: kindNumbers},
	{Name: "models", Doc: "exchange: 1 (receive, send, produce) or 2 (send, receive, produce)", kind: kindWords, words: []string{"1", "2"}},
	{Name: "cross", Doc: "crossing: receive buffers of the size of the message, or large ones", kind: kindWords, words: []string{"exact", "large"}},
	{Name: "patterns", Doc: "paired: same, half, fresh, spectrum, blocking", kind: kindWords, words: []string{"same", "half", "fresh", "spectrum", "blocking"}},
	{Name: "delays", Doc: "overlap, progress: computation in us, instead of --factors", kind: kindNumbers},
	{Name: "methods", Doc: "overlap: sweep (W/T), eq3.4", kind: kindWords, words: []string{"sweep", "eq3.4"}},
	{Name: "peer", Doc: "overlap: the other rank waits in its call, or sleeps as long as rank 0 computes", kind: kindWords, words: []string{"wait", "sleep"}, one: true},
	{Name: "first", Doc: "overlap: who begins, 2 ms ahead of the other: rank 0 (self), the other one (peer), or both together", kind: kindWords, words: []string{"together", "self", "peer"}, one: true},
	{Name: "compute", Doc: "overlap: computation lasts so long on the wall's clock, or takes so much of the processor's time (cpu)", kind: kindWords, words: []string{"wall", "cpu"}, one: true},
	{Name: "ops", Doc: "arrival, late: alltoall, allgather, allreduce", kind: kindWords, words: []string{"alltoall", "allgather", "allreduce"}},
	{Name: "mif", Doc: "arrival, late: most lateness in message times", kind: kindNumbers},
	{Name: "late", Doc: "late: percent of the ranks", kind: kindNumbers},
	{Name: "law", Doc: "late: fixed or random delay of the late ranks", kind: kindWords, words: []string{"fixed", "random"}, one: true},
	{Name: "seed", Doc: "arrival, late: of the random delays and choices", kind: kindNumber},
}

// Normal checks the text of a setting and returns it as the C programs read
// it: plain decimal numbers, sizes in bytes.
func (f Flag) Normal(text string) (string, error) {
	items := strings.Split(text, ",")
	if len(items) > 1 && (f.kind == kindNumber || f.one || f.Name == "pool") {
		return "", fmt.Errorf("--%s %s: one value, please", f.Name, text)
	}
	if len(items) > 32 {
		return "", fmt.Errorf("--%s: at most 32 values", f.Name)
	}
	for i, item := range items {
		normal, err := f.item(strings.TrimSpace(item))
		if err != nil {
			return "", fmt.Errorf("--%s %s: %w", f.Name, text, err)
		}
		items[i] = normal
	}
	return strings.Join(items, ","), nil
}

func (f Flag) item(text string) (string, error) {
	switch f.kind {
	case kindWords:
		if !slices.Contains(f.words, text) {
			return "", fmt.Errorf("%q is not one of %s", text, strings.Join(f.words, ", "))
		}
		return text, nil
	case kindSizes:
		return normalSize(text)
	case kindNumber:
		n, err := strconv.ParseUint(text, 10, 40)
		if err != nil {
			return "", fmt.Errorf("%q is not a whole number of 0 or more", text)
		}
		return strconv.FormatUint(n, 10), nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0 && x <= 1e9) {
		return "", fmt.Errorf("%q is not a number from 0 to 1e9", text)
	}
	return strconv.FormatFloat(x, 'f', -1, 64), nil
}

// maxSize is the largest message: MPI counts in int.
const maxSize = 1 << 30

// normalSize reads 1024, 1K or 1M.
func normalSize(text string) (string, error) {
	digits, shift := text, 0
	switch {
	case strings.HasSuffix(text, "K"):
		digits, shift = text[:len(text)-1], 10
	case strings.HasSuffix(text, "M"):
		digits, shift = text[:len(text)-1], 20
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || n == 0 || n<<shift > maxSize {
		return "", fmt.Errorf("%q is not a size from 1 to 1024M (8, 64K, 1M)", text)
	}
	return strconv.FormatUint(n<<shift, 10), nil
}

// checkTaken refuses a setting that none of the chosen benchmarks has.
func checkTaken(chosen map[string]string, benchmarks []*Benchmark) error {
	for _, f := range Flags {
		if _, ok := chosen[f.Name]; !ok {
			continue
		}
		if !slices.ContainsFunc(benchmarks, func(b *Benchmark) bool { return b.takes(f.Name) }) {
			return fmt.Errorf("--%s: none of the chosen benchmarks has it", f.Name)
		}
	}
	return nil
}
