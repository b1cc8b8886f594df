// Command agent measures what mpitrace agent costs a node: processor time, by
// getrusage of the agent, and memory, while a job of living ranks is scraped as
// Prometheus does. The segments are synthetic, of the size that a default run
// leaves, and change before each scrape.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mpitrace/mpitrace/internal/synth"
)

func main() {
	var b bench
	flag.StringVar(&b.mpitrace, "mpitrace", "build/mpitrace", "the program")
	flag.IntVar(&b.ranks, "ranks", 128, "living ranks")
	flag.DurationVar(&b.every, "every", 5*time.Second, "time between two scrapes")
	flag.IntVar(&b.scrapes, "scrapes", 24, "number of scrapes")
	flag.Parse()
	if err := b.run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench/agent:", err)
		os.Exit(1)
	}
}

type bench struct {
	mpitrace       string
	ranks, scrapes int
	every          time.Duration
	base           string
	segments       []*synth.Segment
}

func (b *bench) run() error {
	var err error
	if b.base, err = os.MkdirTemp("/dev/shm", "mpitrace-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.base)
	if err := b.make(); err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	agent := exec.Command(b.mpitrace, "agent", "--all-users", "--segment-dir", b.base, "--web.listen-address", address)
	agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := agent.Start(); err != nil {
		return err
	}
	begin := time.Now()
	bytes, scrapeErr := b.scrape("http://" + address + "/metrics")
	took := time.Since(begin)
	_ = agent.Process.Signal(syscall.SIGTERM)
	if err := errors.Join(scrapeErr, agent.Wait()); err != nil {
		return err
	}
	usage := agent.ProcessState.SysUsage().(*syscall.Rusage)
	cpu := agent.ProcessState.UserTime() + agent.ProcessState.SystemTime()
	fmt.Printf("%d ranks of one job, %d scrapes, one every %v, in %.0f s\n", b.ranks, b.scrapes, b.every, took.Seconds())
	fmt.Printf("processor: %.0f ms user, %.0f ms system, start and end included: %.2f %% of one core, %.1f ms a scrape\n",
		ms(agent.ProcessState.UserTime()), ms(agent.ProcessState.SystemTime()), 100*cpu.Seconds()/took.Seconds(), ms(cpu)/float64(b.scrapes))
	fmt.Printf("memory: %.0f MiB at most; page: %.0f KiB\n", float64(usage.Maxrss)/1024, float64(bytes)/1024)
	return nil
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

// make writes the segments of a job.
func (b *bench) make() error {
	if err := os.Mkdir(filepath.Join(b.base, "job"), 0o700); err != nil {
		return err
	}
	job := synth.Scale(b.ranks)
	for rank := range b.ranks {
		s := job.Segment(rank)
		if err := s.Live(os.Getpid()); err != nil {
			return err
		}
		b.segments = append(b.segments, s)
	}
	return b.step()
}

// step has every rank make some more calls.
func (b *bench) step() error {
	for rank, s := range b.segments {
		for i := range s.Sites {
			s.Sites[i].Calls += 3
			s.Sites[i].Ticks += 3000
		}
		f, err := os.OpenFile(filepath.Join(b.base, "job", fmt.Sprintf("%d-1.seg", rank)), os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			_, err = f.WriteAt(s.Bytes(), 0)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// scrape reads the page as Prometheus does, and returns the size of the last.
func (b *bench) scrape(url string) (bytes int64, err error) {
	client := http.Client{Timeout: 30 * time.Second}
	next := time.NewTicker(b.every)
	defer next.Stop()
	for range b.scrapes {
		<-next.C
		if err := b.step(); err != nil {
			return 0, err
		}
		request, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			return 0, err
		}
		request.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
		response, err := client.Do(request)
		if err != nil {
			return 0, err
		}
		bytes, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("%s: %s, %w", url, response.Status, err)
		}
	}
	return bytes, nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
