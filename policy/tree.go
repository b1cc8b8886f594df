package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// node is a JSON value with the place where it stands. encoding/json alone
// tells neither where a name stands nor that it stands twice.
type node struct {
	offset  int
	value   any // string, json.Number, bool, nil; of objects and arrays json.Delim
	members []member
	items   []*node
}

type member struct {
	name   string
	offset int
	value  *node
}

// maxDepth bounds the nesting of what is read; a policy needs five levels.
const maxDepth = 16

// errAt is an error at a place of the text.
type errAt struct {
	offset int
	text   string
}

func (e *errAt) Error() string { return e.text }

type treeReader struct {
	text []byte
	in   *json.Decoder
}

func readTree(text []byte) (*node, error) {
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		return nil, &errAt{0, "a byte order mark in front of the policy: save the file as UTF-8 without one"}
	}
	r := &treeReader{text: text, in: json.NewDecoder(bytes.NewReader(text))}
	r.in.UseNumber()
	n, err := r.value(0)
	if err != nil {
		return nil, err
	}
	at := r.next()
	if _, err := r.in.Token(); !errors.Is(err, io.EOF) {
		return nil, &errAt{at, "text after the end of the policy"}
	}
	return n, nil
}

// next is where the next token begins.
func (r *treeReader) next() int {
	at := int(r.in.InputOffset())
	for at < len(r.text) && bytes.IndexByte([]byte(" \t\r\n,:"), r.text[at]) >= 0 {
		at++
	}
	return at
}

func (r *treeReader) token() (json.Token, int, error) {
	at := r.next()
	t, err := r.in.Token()
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, at, &errAt{min(max(at, int(syntax.Offset)-1), len(r.text)), "this is not JSON: " + syntax.Error()}
	case err != nil:
		return nil, at, &errAt{len(r.text), "the text ends too early"}
	}
	return t, at, nil
}

func (r *treeReader) value(depth int) (*node, error) {
	t, at, err := r.token()
	if err != nil {
		return nil, err
	}
	n := &node{offset: at, value: t}
	switch {
	case depth == maxDepth:
		return nil, &errAt{at, fmt.Sprintf("nested deeper than %d levels", maxDepth)}
	case t == json.Delim('{'):
		err = r.object(n, depth)
	case t == json.Delim('['):
		err = r.array(n, depth)
	}
	return n, err
}

func (r *treeReader) object(n *node, depth int) error {
	for r.in.More() {
		t, at, err := r.token()
		if err != nil {
			return err
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.members = append(n.members, member{t.(string), at, v})
	}
	_, _, err := r.token()
	return err
}

func (r *treeReader) array(n *node, depth int) error {
	for r.in.More() {
		v, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, v)
	}
	_, _, err := r.token()
	return err
}

// kind names what a value is, for people.
func (n *node) kind() string {
	switch v := n.value.(type) {
	case string:
		return fmt.Sprintf("%q", v)
	case json.Number:
		return v.String()
	case bool:
		return fmt.Sprint(v)
	case json.Delim:
		if v == '{' {
			return "an object"
		}
		return "a list"
	}
	return "null"
}

// place is line and column of an offset, from 1.
func place(text []byte, offset int) (line, column int) {
	before := text[:min(max(offset, 0), len(text))]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}
