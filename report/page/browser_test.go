package page

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// browserLimit bounds what one test waits for the browser.
const browserLimit = 10 * time.Minute

// chromium starts a browser for one test.
func chromium(t testing.TB) context.Context {
	t.Helper()
	mpijob.Need(t, mpijob.Tools("chromium", "chromium"))
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath("chromium"), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1366, 900)}
	for _, flag := range []string{
		"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
		"disable-component-update", "disable-sync", "no-default-browser-check", "hide-scrollbars", "disable-dev-shm-usage",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	limited, cancel := context.WithTimeout(t.Context(), browserLimit)
	allocated, stop := chromedp.NewExecAllocator(limited, options...)
	ctx, closed := chromedp.NewContext(allocated)
	t.Cleanup(func() { closed(); stop(); cancel() })
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("chromium does not start: %v", err)
	}
	return ctx
}

// complaints gathers what a page must not do: messages of the console, errors,
// dialogs, requests.
type complaints struct {
	mu   sync.Mutex
	list []string
}

func (c *complaints) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, fmt.Sprintf(format, args...))
}

func (c *complaints) listen(ctx context.Context, address string) error {
	return chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			c.add("console: %s", e.Args[0].Value)
		case *runtime.EventExceptionThrown:
			c.add("exception: %s", e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			c.add("log: %s", e.Entry.Text)
		case *page.EventJavascriptDialogOpening:
			c.add("dialog: %s", e.Message)
		case *network.EventRequestWillBeSent:
			if u := e.Request.URL; u != address && !strings.HasPrefix(u, "data:") {
				c.add("request: %s", u)
			}
		}
	})
}

func (c *complaints) require(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range c.list {
		t.Errorf("the page complains: %s", text)
	}
}

// save writes the page of a report to a file and returns its address.
func save(t testing.TB, r *report.Report) (address string, bytes int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	bytes, err := WriteFile(path, false, r, Options{Zone: time.UTC, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return (&url.URL{Scheme: "file", Path: path}).String(), bytes
}

// open shows a page in a new browser; complaints are errors at the end of the
// test. Before it is shown, prepare may change the browser.
func open(t testing.TB, address string, prepare ...func(ctx context.Context)) context.Context {
	t.Helper()
	ctx := chromium(t)
	c := &complaints{}
	if err := c.listen(ctx, address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.require(t) })
	call(t, ctx, log.Enable, cdp.Empty{})
	call(t, ctx, network.Enable, network.EnableParams{})
	for _, f := range prepare {
		f(ctx)
	}
	do(t, ctx, chromedp.Navigate(address))
	return ctx
}

// do has the browser do something.
func do(t testing.TB, ctx context.Context, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

// call sends a command of the protocol.
func call[P, R any](t testing.TB, ctx context.Context, command cdp.Command[P, R], params P) R {
	t.Helper()
	result, err := chromedp.Run(ctx, func(ctx context.Context, target *chromedp.Target) (R, error) {
		return cdp.Call(ctx, target, command, params)
	})
	if err != nil {
		t.Fatalf("%s: %v", command.Method, err)
	}
	return result
}

// ask evaluates an expression of the script's language in the page.
func ask[T any](t testing.TB, ctx context.Context, expression string) T {
	t.Helper()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// await waits until an expression is true; what says what that means.
func await(t testing.TB, ctx context.Context, what, expression string) {
	t.Helper()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(browserLimit))); err != nil {
		t.Errorf("waited in vain until %s: %v", what, err)
	}
}

// press moves the focus to an element and presses keys there.
func press(t testing.TB, ctx context.Context, selector string, keys ...string) {
	t.Helper()
	ask[bool](t, ctx, fmt.Sprintf("document.querySelector(%q).focus() ?? true", selector))
	for _, key := range keys {
		do(t, ctx, chromedp.KeyEvent(key))
	}
}

// keep writes a picture for people to look at, if MPITRACE_TEST_PICTURES names
// a folder.
func keep(t testing.TB, name string, data []byte) {
	t.Helper()
	folder := os.Getenv("MPITRACE_TEST_PICTURES")
	if folder == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}
