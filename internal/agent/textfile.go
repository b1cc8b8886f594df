package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mpitrace/mpitrace/exporter"
	"github.com/prometheus/client_golang/prometheus"
)

// textfileName is what node_exporter reads: any name that ends in .prom.
const textfileName = "mpitrace.prom"

// writeTextfiles writes the page for node_exporter until the context ends, and
// then removes it: figures of an agent that is gone would stay for ever.
func (a *Agent) writeTextfiles(ctx context.Context) {
	path := filepath.Join(a.options.TextfileDir, textfileName)
	tick := time.NewTicker(a.options.TextfileEvery)
	defer tick.Stop()
	for {
		a.writeTextfile(path)
		select {
		case <-ctx.Done():
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				a.options.Log.Warn("textfile", "error", err)
			}
			return
		case <-tick.C:
		}
	}
}

// writeTextfile writes the file and gives it its name when it is whole. It has
// no process_ metrics: node_exporter has its own of that name.
func (a *Agent) writeTextfile(path string) {
	page, delivered := a.keeper.page(viewer{all: true}, &a.users, a.options.Node, a.options.Worst)
	registry := prometheus.NewRegistry()
	registry.MustRegister(exporter.Exporter{Page: page})
	if err := prometheus.WriteToTextfile(path, registry); err != nil {
		a.keeper.mu.Lock()
		a.keeper.fail(failedTextfile, err)
		a.keeper.mu.Unlock()
		return
	}
	delivered()
}
