package launch

import "strings"

// option is one option on a launcher's command line.
type option struct {
	name       string   // without dashes
	values     []string // the words that belong to it
	first, end int      // it is args[first:end]
	cluster    int      // its place in a word of single letters
}

// syntax says how a launcher's options are written.
type syntax struct {
	// words is how many values follow an option, by name without dashes; an
	// option that is not listed has none.
	words map[string]int
	// letters is set when single-dash options are clusters of letters, as
	// getopt has them: -n4, -ul.
	letters bool
	// optional are letters whose value, if any, is the rest of the word.
	optional string
}

// table builds syntax.words from lists of names, the i-th of which name the
// options with i+1 values.
func table(lists ...string) map[string]int {
	words := map[string]int{}
	for i, list := range lists {
		for _, name := range strings.Fields(list) {
			words[name] = i + 1
		}
	}
	return words
}

// parse reads the options at the start of args and returns them with the
// index of the first word that is none: the program. The word -- that may stand
// between them counts as an option.
func (s syntax) parse(args []string) (options []option, rest int) {
	i := 0
	for i < len(args) {
		word := args[i]
		if word == "--" {
			return append(options, option{name: word, first: i, end: i + 1}), i + 1
		}
		if len(word) < 2 || word[0] != '-' {
			break
		}
		var found []option
		if s.letters && word[1] != '-' {
			found = s.cluster(args, i)
		} else {
			found = []option{s.long(args, i)}
		}
		options = append(options, found...)
		i = found[len(found)-1].end
	}
	return options, i
}

// long reads an option written as a word.
func (s syntax) long(args []string, i int) option {
	name, value, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
	o := option{name: s.complete(name), first: i, end: i + 1}
	if joined {
		o.values = []string{value}
		return o
	}
	o.end = min(i+1+s.words[o.name], len(args))
	o.values = args[i+1 : o.end]
	return o
}

// complete expands an abbreviated name where the launcher uses getopt_long
// and only one option begins like it.
func (s syntax) complete(name string) string {
	if _, known := s.words[name]; known || !s.letters {
		return name
	}
	match := name
	for full := range s.words {
		if strings.HasPrefix(full, name) {
			if match != name {
				return name
			}
			match = full
		}
	}
	return match
}

// cluster reads a word of single-letter options.
func (s syntax) cluster(args []string, i int) []option {
	var out []option
	word := args[i][1:]
	for j := range word {
		o := option{name: word[j : j+1], first: i, end: i + 1, cluster: j}
		if strings.Contains(s.optional, o.name) {
			return append(out, o)
		}
		if s.words[o.name] == 0 {
			out = append(out, o)
			continue
		}
		if j+1 < len(word) {
			o.values = []string{word[j+1:]}
		} else {
			o.end = min(i+2, len(args))
			o.values = args[i+1 : o.end]
		}
		return append(out, o)
	}
	return out
}

// contexts cuts a command line at the colons that separate the programs of
// an MPMD job.
func contexts(args []string) [][]string {
	out := [][]string{nil}
	for _, word := range args {
		if word == ":" {
			out = append(out, nil)
			continue
		}
		out[len(out)-1] = append(out[len(out)-1], word)
	}
	return out
}

// joinContexts is the inverse of contexts.
func joinContexts(parts [][]string) []string {
	var out []string
	for i, part := range parts {
		if i > 0 {
			out = append(out, ":")
		}
		out = append(out, part...)
	}
	return out
}

// value returns the only value of an option, empty if it has none.
func (o option) value() string {
	if len(o.values) == 0 {
		return ""
	}
	return o.values[0]
}
