package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/golden"
)

// TestRewrite runs the text files in testdata. Each case is
//
//	KIND COMMAND          the command as the user types it, words in '' if need be
//	env NAME=VALUE        a variable of its environment
//	set NAME=VALUE        a setting for the ranks
//	file NAME TEXT        a file that it names; | ends a line
//	----
//	what it becomes, until an empty line
//
// In the result, env lines are the variables that were added or changed, and
// sweep is the command that reaches each node once.
func TestRewrite(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Base(name), []byte(rewriteAll(t, string(text))))
		})
	}
}

// rewriteAll returns a file with its expected parts made anew.
func rewriteAll(t *testing.T, text string) string {
	var out strings.Builder
	for _, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		input, _, isCase := strings.Cut(block, "----")
		if !isCase {
			out.WriteString(block + "\n\n")
			continue
		}
		out.WriteString(input + "----\n" + rewriteOne(t, input) + "\n")
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// rewriteOne runs one case.
func rewriteOne(t *testing.T, input string) string {
	r := Request{Preload: "/opt/libmpishim.so", Self: "/opt/mpitrace", TempFile: "/tmp/app.copy", Set: []string{"MPITRACE_JOB_ID=j1", "MPITRACE_OUTPUT=/home/u/out"}}
	files := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(input), "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "#":
		case "env":
			r.Env = append(r.Env, rest)
		case "set":
			r.Set = append(r.Set, rest)
		case "file":
			name, content, _ := strings.Cut(rest, " ")
			files[name] = strings.ReplaceAll(content, "|", "\n")
		case "openmpi", "hydra", "slurm", "direct", "sbatch":
			r.Kind, r.Args = Kind(verb), words(rest)
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	r.ReadFile = func(name string) ([]byte, error) {
		if content, ok := files[name]; ok {
			return []byte(content), nil
		}
		return nil, fmt.Errorf("%s: %w", name, os.ErrNotExist)
	}
	p, err := Make(r)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	return describe(p, r.Env)
}

// describe prints a plan.
func describe(p *Plan, env []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", quote(p.Args))
	for _, entry := range p.Env {
		if !slices.Contains(env, entry) {
			fmt.Fprintf(&b, "env %s\n", entry)
		}
	}
	for name, content := range p.Files {
		fmt.Fprintf(&b, "file %s %s\n", name, strings.ReplaceAll(string(content), "\n", "|"))
	}
	fmt.Fprintf(&b, "programs %s\n", quote(p.Programs))
	if sweep := p.Sweep("mpitrace", "collect"); sweep != nil {
		fmt.Fprintf(&b, "sweep %s\n", quote(sweep))
	}
	return b.String()
}

// words splits at blanks; a word in quotes may hold some, or be empty.
func words(text string) []string {
	var out []string
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		if rest, ok := strings.CutPrefix(text, "'"); ok {
			word, after, _ := strings.Cut(rest, "'")
			out, text = append(out, word), after
			continue
		}
		word, after, _ := strings.Cut(text, " ")
		out, text = append(out, word), after
	}
	return out
}

func quote(args []string) string {
	out := slices.Clone(args)
	for i, word := range out {
		if word == "" || strings.Contains(word, " ") {
			out[i] = "'" + word + "'"
		}
	}
	return strings.Join(out, " ")
}
