package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// measure is one metric of spec/metrics.json.
type measure struct {
	Name, Type, Unit, Help, Since, Obsolete string
	Labels                                  []string
}

type metrics struct {
	Labels  [][2]string // name and meaning
	Metrics []measure
}

func readMetrics(path string) (*metrics, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := &metrics{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// check holds the page to the rules of names, and every label to a meaning.
func (m *metrics) check() error {
	names, used := map[string]bool{}, map[string]bool{}
	for _, n := range m.Metrics {
		base, total := strings.CutSuffix(n.Name, "_total")
		switch {
		case !strings.HasPrefix(n.Name, "mpitrace_") || names[base]: // OpenMetrics knows a counter by its base
			return fmt.Errorf("%s: does not begin with mpitrace_, or stands twice", n.Name)
		case n.Type != "counter" && n.Type != "gauge":
			return fmt.Errorf("%s: unknown type %q", n.Name, n.Type)
		case total != (n.Type == "counter"):
			return fmt.Errorf("%s: counters end in _total, and nothing else does", n.Name)
		case n.Unit != "" && !strings.HasSuffix(base, "_"+n.Unit):
			return fmt.Errorf("%s: its unit %s does not stand at its end", n.Name, n.Unit)
		case n.Help == "" || n.Since == "":
			return fmt.Errorf("%s: needs help and since", n.Name)
		}
		names[base] = true
		for _, label := range n.Labels {
			if !slices.ContainsFunc(m.Labels, func(l [2]string) bool { return l[0] == label }) {
				return fmt.Errorf("%s: label %s has no meaning", n.Name, label)
			}
			used[label] = true
		}
	}
	for _, l := range m.Labels {
		if !used[l[0]] {
			return fmt.Errorf("label %s is used by nothing", l[0])
		}
	}
	return nil
}

// variable is the name of a metric in Go: mpitrace_job_calls_total, jobCalls.
func (n *measure) variable() string {
	words := strings.Split(strings.TrimSuffix(strings.TrimPrefix(n.Name, "mpitrace_"), "_total"), "_")
	for i, word := range words[1:] {
		if word == "mpi" {
			word = "MPI"
		}
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

func (m *metrics) emit(out output) {
	var g, d bytes.Buffer
	fmt.Fprintf(&g, "// %s\n\npackage exporter\n\nimport \"github.com/prometheus/client_golang/prometheus\"\n\n", notice)
	g.WriteString("// The metrics, as spec/metrics.json has them.\nvar (\n")
	fmt.Fprintf(&d, "<!-- %s -->\n# Metrics of mpitrace agent\n\n[agent.md](agent.md) says how to get them and who may read them. Times are seconds.\n\n", notice)
	d.WriteString("| metric | type | since | labels | meaning |\n|---|---|---|---|---|\n")
	var variables []string
	for i := range m.Metrics {
		n := &m.Metrics[i]
		since := n.Since
		if n.Obsolete != "" {
			since += ", not from " + n.Obsolete
		} else {
			kind := map[string]string{"counter": "CounterValue", "gauge": "GaugeValue"}[n.Type]
			fmt.Fprintf(&g, "%s = metric{prometheus.NewDesc(%q, %q, %#v, nil), prometheus.%s}\n", n.variable(), n.Name, n.Help, n.Labels, kind)
			variables = append(variables, n.variable())
		}
		labels := ""
		if len(n.Labels) > 0 {
			labels = "`" + strings.Join(n.Labels, "` `") + "`"
		}
		fmt.Fprintf(&d, "| `%s` | %s | %s | %s | %s |\n", n.Name, n.Type, since, labels, n.Help)
	}
	fmt.Fprintf(&g, ")\n\n// metrics lists them all.\nvar metrics = []metric{\n%s,\n}\n", strings.Join(variables, ",\n"))
	d.WriteString("\nBeside them stand `process_cpu_seconds_total`, `process_resident_memory_bytes` and the other `process_` metrics of the agent itself, as every exporter has them.\n\n## Labels\n\n| label | meaning |\n|---|---|\n")
	for _, l := range m.Labels {
		fmt.Fprintf(&d, "| `%s` | %s |\n", l[0], l[1])
	}
	out["exporter/metrics_gen.go"] = gofmt(g.Bytes())
	out["docs/metrics.md"] = d.Bytes()
}
