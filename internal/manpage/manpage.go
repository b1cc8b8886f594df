package manpage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Manual is what the pages of a command tree have in common.
type Manual struct {
	Version string    // of the program
	Date    time.Time // of the pages
	// Sections are added to the page of the root command.
	Sections []Section
}

// Section is a list under a heading: variables, exit statuses, files.
type Section struct {
	Heading string
	Entries [][2]string // term and explanation
}

// WriteTree writes the pages of root and all its commands into dir, which it
// makes if necessary.
func (m Manual) WriteTree(dir string, root *cobra.Command) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("man pages: %w", err)
	}
	return m.writeTree(dir, root)
}

func (m Manual) writeTree(dir string, c *cobra.Command) error {
	path := filepath.Join(dir, pageName(c)+".1")
	if err := os.WriteFile(path, m.Page(c), 0o644); err != nil {
		return fmt.Errorf("man pages: %w", err)
	}
	for _, sub := range documented(c) {
		if err := m.writeTree(dir, sub); err != nil {
			return err
		}
	}
	return nil
}

// pageName is the name of a command's page: mpitrace-run.
func pageName(c *cobra.Command) string {
	return strings.ReplaceAll(c.CommandPath(), " ", "-")
}

// documented are the commands below c that have a page.
func documented(c *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			out = append(out, sub)
		}
	}
	return out
}

// Page is the page of one command.
func (m Manual) Page(c *cobra.Command) []byte {
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	var p page
	name := pageName(c)
	p.macro(".TH %s 1 %s %s %s", quote(strings.ToUpper(name)), quote(m.Date.UTC().Format(time.DateOnly)),
		quote(c.Root().Name()+" "+m.Version), quote(c.Root().Name()+" manual"))
	p.macro(".nh\n.ad l") // names of commands are not broken
	p.macro(".SH NAME")
	p.wrapped(escape(name) + ` \- ` + escape(c.Short))
	p.macro(".SH SYNOPSIS")
	p.wrapped(`\fB` + strings.Replace(escapeAll(synopsis(c)), escapeAll(c.CommandPath()), escapeAll(c.CommandPath())+`\fR`, 1))
	p.macro(".SH DESCRIPTION")
	p.prose(orShort(c))
	p.commands(c)
	p.options(c)
	if c.Example != "" {
		p.macro(".SH EXAMPLES")
		p.literal(strings.Split(strings.Trim(c.Example, "\n"), "\n"))
	}
	if !c.HasParent() {
		for _, s := range m.Sections {
			p.macro(".SH %s", s.Heading)
			for _, e := range s.Entries {
				p.entry(`\fB`+escapeAll(e[0])+`\fR`, e[1])
			}
		}
	}
	p.seeAlso(c)
	return p.Bytes()
}

func orShort(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short + "."
}

// synopsis is the usage line; a command with commands below it says so.
func synopsis(c *cobra.Command) string {
	if len(documented(c)) > 0 {
		return c.CommandPath() + " [command] [flags]"
	}
	return c.UseLine()
}

// page is a page that is being written. Text of ours starts no line with a
// point or an apostrophe, which would make it a macro: escape sees to it.
type page struct{ bytes.Buffer }

func (p *page) macro(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// wrapped writes escaped text in lines that are short enough to read.
func (p *page) wrapped(text string) {
	const width = 76
	column := 0
	for _, word := range strings.Fields(text) {
		if column > 0 && column+1+len(word) > width {
			p.WriteByte('\n')
			column = 0
		}
		if column > 0 {
			p.WriteByte(' ')
			column++
		}
		p.WriteString(word)
		column += len(word)
	}
	p.WriteByte('\n')
}

// prose writes paragraphs of plain text, divided by empty lines. Indented
// lines keep their form.
func (p *page) prose(text string) {
	first := true
	for _, paragraph := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		for _, run := range runs(strings.Split(strings.Trim(paragraph, "\n"), "\n")) {
			if !first {
				p.macro(".PP")
			}
			first = false
			if indented(run[0]) {
				p.literal(run)
			} else {
				p.wrapped(escape(strings.Join(run, " ")))
			}
		}
	}
}

// runs divides lines into runs that are all indented, or none of them.
func runs(lines []string) [][]string {
	var out [][]string
	for i, line := range lines {
		if i == 0 || indented(line) != indented(lines[i-1]) {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], line)
	}
	return out
}

func indented(line string) bool {
	return strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t")
}

// literal writes lines as they are, less the indentation they have in common.
func (p *page) literal(lines []string) {
	p.macro(".nf\n.RS 4")
	margin := len(lines[0])
	for _, line := range lines {
		if text := strings.TrimLeft(line, " \t"); text != "" {
			margin = min(margin, len(line)-len(text))
		}
	}
	for _, line := range lines {
		line = strings.TrimRight(line, " \t")
		p.macro("%s", escapeAll(strings.ReplaceAll(line[min(margin, len(line)):], "\t", "    ")))
	}
	p.macro(".RE\n.fi")
}

// entry writes a term, which is escaped, and its explanation, which is not.
func (p *page) entry(term, text string) {
	p.macro(".TP\n%s", term)
	p.wrapped(escape(text))
}

func (p *page) commands(c *cobra.Command) {
	below := documented(c)
	if len(below) == 0 {
		return
	}
	p.macro(".SH COMMANDS")
	for _, sub := range below {
		p.entry(reference(pageName(sub)), sub.Short)
	}
}

func (p *page) options(c *cobra.Command) {
	p.macro(".SH OPTIONS")
	visit := func(f *pflag.Flag) {
		if !f.Hidden {
			p.option(f)
		}
	}
	c.NonInheritedFlags().VisitAll(visit)
	c.InheritedFlags().VisitAll(visit)
}

func (p *page) option(f *pflag.Flag) {
	argument, text := pflag.UnquoteUsage(f)
	term := `\fB` + escapeAll("--"+f.Name) + `\fR`
	if f.Shorthand != "" {
		term = `\fB` + escapeAll("-"+f.Shorthand) + `\fR, ` + term
	}
	switch {
	case f.NoOptDefVal != "" && f.NoOptDefVal != "true":
		term += escapeAll("[=" + f.NoOptDefVal + "]")
	case argument != "":
		term += ` \fI` + escapeAll(argument) + `\fR`
	}
	switch f.DefValue {
	case "", "0", "0s", "false", "[]":
	default:
		text += " (default " + f.DefValue + ")"
	}
	p.entry(term, text)
}

// seeAlso names the pages above, beside and below.
func (p *page) seeAlso(c *cobra.Command) {
	var pages []string
	if c.HasParent() {
		pages = append(pages, pageName(c.Parent()))
		for _, sibling := range documented(c.Parent()) {
			if sibling != c {
				pages = append(pages, pageName(sibling))
			}
		}
	}
	for _, sub := range documented(c) {
		pages = append(pages, pageName(sub))
	}
	p.macro(".SH SEE ALSO")
	for i, name := range pages {
		comma := ","
		if i == len(pages)-1 {
			comma = ""
		}
		p.macro("%s%s", reference(name), comma)
	}
}

// reference is how a page is named in another one.
func reference(name string) string { return `\fB` + escapeAll(name) + `\fR(1)` }

func quote(text string) string { return `"` + strings.ReplaceAll(escape(text), `"`, `\(dq`) + `"` }

var special = strings.NewReplacer(`\`, `\e`, `'`, `\(aq`, "`", `\(ga`, `~`, `\(ti`, `^`, `\(ha`)

// escape makes text of ours safe for groff. Hyphens stay hyphens, but those of
// options, which readers copy.
func escape(text string) string {
	words := strings.Split(special.Replace(text), " ")
	for i, word := range words {
		bare := strings.TrimLeft(word, `"([`)
		if strings.HasPrefix(bare, "-") {
			word = strings.ReplaceAll(word, "-", `\-`)
		}
		if strings.HasPrefix(word, ".") {
			word = `\&` + word
		}
		words[i] = word
	}
	return strings.Join(words, " ")
}

// escapeAll is escape for what readers copy as it is: all hyphens are minus
// signs.
func escapeAll(text string) string {
	text = strings.ReplaceAll(special.Replace(text), "-", `\-`)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
