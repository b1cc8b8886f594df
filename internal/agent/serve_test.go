package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/internal/synth"
	"golang.org/x/sys/unix"
)

// secretHash is bcrypt of the word secret, with the least cost there is.
const secretHash = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"

// certificate makes a certificate of 127.0.0.1, signed by itself, in dir.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	must(t, os.WriteFile(filepath.Join(dir, "cert.pem"), public, 0o600),
		os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(public)
	return pool
}

// webConfig writes a configuration with TLS and what else is given.
func webConfig(t *testing.T, more string) (path string, pool *x509.CertPool) {
	t.Helper()
	dir := t.TempDir()
	pool = certificate(t, dir)
	path = filepath.Join(dir, "web.yml")
	must(t, os.WriteFile(path, []byte("tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n"+more), 0o600))
	return path, pool
}

// ask makes one request over TCP and returns the status and the page.
func ask(t *testing.T, url string, config *tls.Config, user, password string) (int, string) {
	t.Helper()
	client := &http.Client{Timeout: within, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	request, err := http.NewRequest(http.MethodGet, url, nil)
	must(t, err)
	if user != "" {
		request.SetBasicAuth(user, password)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(body)
}

// TestPassword: over TLS, with a password, and with none once the password is
// taken out of the configuration of the running agent.
func TestPassword(t *testing.T) {
	config, pool := webConfig(t, "basic_auth_users:\n  prometheus: "+secretHash+"\n")
	base := newBase(t)
	a := start(t, base, func(o *Options) { o.Listen, o.WebConfig = []string{"127.0.0.1:0"}, config })
	lay(t, base, synth.Job{ID: "j", Ranks: 1})
	url := "https://" + a.Addresses()[0] + "/metrics"
	trust := &tls.Config{RootCAs: pool}
	eventually(t, "the job is shown", func() bool {
		a.keeper.read(0)
		status, page := ask(t, url, trust, "prometheus", "secret")
		n, _ := value(t, page, "mpitrace_job_calls_total", `"allreduce"`)
		return status == 200 && n == 10_000
	})
	if status, _ := ask(t, url, trust, "prometheus", "wrong"); status != http.StatusUnauthorized {
		t.Errorf("a wrong password: status %d", status)
	}
	if status, _ := ask(t, url, trust, "", ""); status != http.StatusUnauthorized {
		t.Errorf("no password: status %d", status)
	}
	if _, text := ask(t, url, &tls.Config{RootCAs: x509.NewCertPool()}, "prometheus", "secret"); !strings.Contains(text, "certificate") {
		t.Errorf("an unknown certificate was accepted: %s", text)
	}
	if status, _ := ask(t, strings.Replace(url, "https", "http", 1), nil, "prometheus", "secret"); status != http.StatusBadRequest {
		t.Errorf("without TLS: status %d", status)
	}
	text, err := os.ReadFile(config)
	must(t, err)
	open, _, _ := strings.Cut(string(text), "basic_auth_users")
	must(t, os.WriteFile(config, []byte(open), 0o600))
	if status, page := ask(t, url, trust, "", ""); status != http.StatusForbidden || strings.Contains(page, "mpitrace_job") {
		t.Errorf("after the password was taken away: status %d\n%s", status, page)
	}
}

// TestClientCertificate: who has one gets in, and nobody else.
func TestClientCertificate(t *testing.T) {
	config, pool := webConfig(t, "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: cert.pem\n")
	a := start(t, newBase(t), func(o *Options) { o.Listen, o.WebConfig = []string{"127.0.0.1:0"}, config })
	own, err := tls.LoadX509KeyPair(filepath.Join(filepath.Dir(config), "cert.pem"), filepath.Join(filepath.Dir(config), "key.pem"))
	must(t, err)
	url := "https://" + a.Addresses()[0] + "/metrics"
	if status, page := ask(t, url, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{own}}, "", ""); status != 200 {
		t.Errorf("with a certificate: %d %s", status, page)
	}
	if status, page := ask(t, url, &tls.Config{RootCAs: pool}, "", ""); status != 0 {
		t.Errorf("without: %d %s", status, page)
	}
}

// TestNobodyElse: over TCP root's agent shows the jobs of root only, until it is
// told that all may be seen.
func TestNobodyElse(t *testing.T) {
	needRoot(t)
	for _, all := range []bool{false, true} {
		config, pool := webConfig(t, "basic_auth_users:\n  prometheus: "+secretHash+"\n")
		top := t.TempDir()
		base := filepath.Join(top, "mpitrace-1001")
		must(t, os.Mkdir(base, 0o700), os.Chown(base, 1001, 1001))
		a := start(t, filepath.Join(top, "mpitrace-*"), func(o *Options) {
			o.Listen, o.WebConfig, o.AllUsers = []string{"127.0.0.1:0"}, config, all
		})
		dir := filepath.Join(top, "j")
		must(t, os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "0-1.seg"), synth.Job{ID: "j", Ranks: 1}.Segment(0).Bytes(), 0o600),
			os.Chown(filepath.Join(dir, "0-1.seg"), 1001, 1001), os.Chown(dir, 1001, 1001), os.Rename(dir, filepath.Join(base, "j")))
		eventually(t, "it is read", func() bool {
			a.keeper.read(0)
			a.keeper.mu.Lock()
			defer a.keeper.mu.Unlock()
			return a.keeper.stats.Read > 0
		})
		_, page := ask(t, "https://"+a.Addresses()[0]+"/metrics", &tls.Config{RootCAs: pool}, "prometheus", "secret")
		if got := strings.Contains(page, "mpitrace_job_info{"); got != all {
			t.Errorf("all users %v: the job of another is shown: %v", all, got)
		}
		if n, _ := value(t, page, "mpitrace_node_calls_total", `"allreduce"`); (n != 0) != all {
			t.Errorf("all users %v: sum %v", all, n)
		}
	}
}

// TestRefusesToStart: what an agent must not do, or cannot, it says at once.
func TestRefusesToStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	socket := filepath.Join(t.TempDir(), "s")
	held, err := net.Listen("unix", socket)
	must(t, err)
	defer held.Close()
	noPassword, _ := webConfig(t, "")
	broken := filepath.Join(t.TempDir(), "web.yml")
	must(t, os.WriteFile(broken, []byte("basic_auth_user: {}\n"), 0o600))
	tcp := []string{"127.0.0.1:0"}
	for want, o := range map[string]Options{
		"or say --all-users if that is meant":   {Listen: tcp},
		"demand a password":                     {Listen: tcp, WebConfig: noPassword},
		"web.yml":                               {Listen: tcp, WebConfig: broken, AllUsers: true},
		"something listens there already":       {Listen: []string{taken.Addr().String()}, AllUsers: true},
		"s: something listens there already":    {Listen: []string{unixScheme + socket}},
		"missing port":                          {Listen: []string{"localhost"}, AllUsers: true},
		"everybody on this machine can read":    {TextfileDir: t.TempDir()},
		"in the last element only":              {SegmentDirs: []string{"/*/x"}, AllUsers: true},
		"--segment-dir [: is no pattern":        {SegmentDirs: []string{"["}},
		"--web.listen-address unix:/proc/none/": {Listen: []string{"unix:/proc/none/s"}},
	} {
		if o.SegmentDirs == nil {
			o.SegmentDirs = []string{newBase(t)}
		}
		a, err := New(o)
		if err == nil {
			t.Errorf("%q: it starts", want)
			must(t, a.close())
			continue
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q, want one line with %q", err, want)
		}
	}
}

// TestSocket: a socket that an agent left behind is taken over, a file is not.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	left.SetUnlinkOnClose(false)
	must(t, left.Close())
	l, err := listen(unixScheme + path)
	must(t, err)
	must(t, l.Close())
	must(t, os.WriteFile(path, nil, 0o600))
	if _, err := listen(unixScheme + path); err == nil {
		t.Error("a file was replaced")
	}
	needRoot(t)
	theirs := t.TempDir()
	must(t, os.Chown(theirs, 1001, 1001))
	if _, err := listen(unixScheme + filepath.Join(theirs, "s")); err == nil || !strings.Contains(err.Error(), "belongs to user 1001") {
		t.Errorf("in the directory of another user: %v", err)
	}
}

// TestTextfile: what node_exporter reads is whole at any moment, and is gone
// with the agent.
func TestTextfile(t *testing.T) {
	dir, base := t.TempDir(), newBase(t)
	path := filepath.Join(dir, textfileName)
	t.Run("writing", func(t *testing.T) {
		start(t, base, func(o *Options) { o.AllUsers, o.TextfileDir, o.TextfileEvery = true, dir, time.Millisecond })
		lay(t, base, synth.Job{ID: "j", Ranks: 1})
		eventually(t, "the job is in it", func() bool {
			text, err := os.ReadFile(path)
			if err != nil {
				return false
			}
			if !strings.HasSuffix(string(text), "\n") || strings.Contains(string(text), "\nprocess_") {
				t.Fatalf("half a file, or one with metrics of node_exporter:\n%s", text)
			}
			n, _ := value(t, string(text), "mpitrace_job_calls_total", `"allreduce"`)
			return n == 10_000
		})
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	gone := filepath.Join(t.TempDir(), "gone")
	must(t, os.Mkdir(gone, 0o755))
	a := start(t, base, func(o *Options) { o.AllUsers, o.TextfileDir, o.TextfileEvery = true, gone, time.Millisecond })
	must(t, os.RemoveAll(gone))
	eventually(t, "the failure is counted", func() bool {
		n, _ := value(t, a.page(t), "mpitrace_agent_errors_total", `"textfile"`)
		return n >= 1
	})
}

// TestTextfileDir: what can never be written to is refused at the start.
func TestTextfileDir(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for dir, want := range map[string]string{file: "not a directory", file + "s": "no such file"} {
		o := Options{AllUsers: true, TextfileDir: dir, Listen: []string{unixScheme + filepath.Join(t.TempDir(), "s")}}
		if err := o.check(nil); err == nil || !strings.HasPrefix(err.Error(), "--textfile-dir") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// TestEnd: an agent ends although a reader hangs on to it.
func TestEnd(t *testing.T) {
	a, err := New(Options{SegmentDirs: []string{newBase(t)}, Listen: []string{unixScheme + filepath.Join(t.TempDir(), "s")}, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	c, err := net.Dial("unix", a.Addresses()[0])
	must(t, err)
	defer c.Close()
	_, err = c.Write([]byte("GET /met"))
	must(t, err)
	stop()
	select {
	case err := <-done:
		must(t, err)
	case <-time.After(within):
		t.Fatal("it does not end")
	}
	var info unix.Stat_t
	if unix.Stat(a.Addresses()[0], &info) == nil {
		t.Error("its socket is left")
	}
}
