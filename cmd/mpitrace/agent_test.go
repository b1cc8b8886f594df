package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestAgentRefuses: wrong command lines give one line and a status.
func TestAgentRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"must not be negative":  {"--worst", "-1"},
		"invalid argument":      {"--keep", "long"},
		"or say --all-users":    {"--web.listen-address", "127.0.0.1:0"},
		"unknown command":       {"now"},
		"no such file":          {"--web.config.file", "/none/web.yml", "--all-users"},
		"last element only":     {"--segment-dir", "/dev/*/x"},
		"say --all-users if th": {"--textfile-dir", "/tmp"},
	} {
		var out, err bytes.Buffer
		status := execute(append([]string{"agent"}, args...), &out, &err)
		if status != statusUsage || strings.Count(err.String(), "\n") != 1 || !strings.Contains(err.String(), want) {
			t.Errorf("%q: status %d, %q, want %q", args, status, err.String(), want)
		}
	}
}
