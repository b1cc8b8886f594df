package launch

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOutput: a command whose child holds its output is not waited for without end.
func TestOutput(t *testing.T) {
	note := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := Output(ctx, "sh", "-c", "sleep 3600 & echo $! >"+note+".part; mv "+note+".part "+note+"; exec sleep 3600")
		ended <- err
	}()
	var child int
	for end := time.Now().Add(time.Minute); child == 0; time.Sleep(time.Millisecond) {
		if text, err := os.ReadFile(note); err == nil {
			child, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		if time.Now().After(end) {
			t.Fatal("the command does not start")
		}
	}
	defer syscall.Kill(child, syscall.SIGKILL)
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a command that was ended is taken for one that worked")
		}
	case <-time.After(5 * time.Minute):
		t.Error("the command's child is waited for")
	}
}
