package policy

import (
	"strings"
	"testing"
)

func TestCheckRuntime(t *testing.T) {
	for text, want := range map[string]string{
		"auto":                          "",
		"eager=copy,rendezvous=write":   "",
		"rendezvous=read-event":         "",
		"eager=reuse,engine=thread":     "",
		"rendezvous=receiver":           "",
		"transport=ud-first,eager=copy": "",
		"verify_every=100":              "",
		`{"schema": 1, "rules": [{"when": {"size": "1K.."}, "use": {"rendezvous": "write"}}]}`:             "rules are not followed",
		`{"schema": 1, "rules": [{"when": {"size": "1K.."}, "use": {"eager": "copy"}}]}`:                   "",
		`{"schema": 1, "eager": "reuse", "rules": [{"when": {"size": "1K.."}, "use": {"eager": "copy"}}]}`: "rules are not followed",
	} {
		parse := ParseString
		if strings.HasPrefix(text, "{") {
			parse = func(source, text string) (*Layer, error) { return ParseJSON(source, []byte(text)) }
		}
		layer, err := parse("here", text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		effective, err := Resolve(layer)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		err = effective.CheckRuntime()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
