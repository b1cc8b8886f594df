package manpage_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/internal/golden"
	"github.com/mpitrace/mpitrace/internal/manpage"
	"github.com/spf13/cobra"
)

func nothing(*cobra.Command, []string) {}

var manual = manpage.Manual{
	Version: "1.2.3", Date: time.Unix(1_700_000_000, 0),
	Sections: []manpage.Section{{Heading: "ENVIRONMENT", Entries: [][2]string{{"TOOL_SIZE", "in bytes; -1: none"}}}},
}

// tree is a command with all that a page can have, and what groff would take
// for its own.
func tree() *cobra.Command {
	root := &cobra.Command{Use: "tool", Short: "Do things", Version: "1.2.3", Run: nothing}
	run := &cobra.Command{
		Use: "run [options] -- COMMAND", Short: "Run a command's ranks", Run: nothing,
		Long: `.profile is no macro, nor is 'this', and \e stays as it is. Use --size=1 (or
-s) for a well-known size, "~/x" and x^2; this paragraph is long enough to need
a second line.

Two lists:
  a-b    first
    c    second

	.tab   indented by a tab

The end.`,
		Example: "  tool run -- ./a.out 'x'\n\n  # `date` and .hidden\n  .hidden --deep",
	}
	run.Flags().StringP("size", "s", "64K", "size of a `block`")
	run.Flags().Bool("quick", false, "less of it")
	run.Flags().String("old", "", "forgotten")
	run.Flags().String("level", "1", "how much")
	run.Flags().Lookup("level").NoOptDefVal = "2"
	if err := run.Flags().MarkHidden("old"); err != nil {
		panic(err)
	}
	root.AddCommand(run, &cobra.Command{Use: "secret", Hidden: true, Run: nothing}, &cobra.Command{Use: "show-all", Short: "Show", Run: nothing})
	return root
}

func TestPage(t *testing.T) {
	root := tree()
	golden.Compare(t, "tool.1", manual.Page(root))
	golden.Compare(t, "tool-run.1", manual.Page(root.Commands()[0]))
}

func TestWriteTree(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	if err := manual.WriteTree(dir, tree()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"tool-run.1", "tool-show-all.1", "tool.1"}; !slices.Equal(names, want) {
		t.Errorf("pages %q, want %q", names, want)
	}
	if err := manual.WriteTree(filepath.Join(dir, "tool.1"), tree()); err == nil {
		t.Error("a file was taken for a directory")
	}
}

func ExampleManual_Page() {
	c := &cobra.Command{Use: "hello", Short: "Greet", Run: nothing}
	page := manpage.Manual{Version: "1.0", Date: time.Unix(0, 0)}.Page(c)
	title, _, _ := strings.Cut(string(page), "\n")
	fmt.Println(title)
	// Output: .TH "HELLO" 1 "1970-01-01" "hello 1.0" "hello manual"
}
