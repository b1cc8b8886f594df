package main

import (
	"slices"
	"strings"
	"testing"
)

func TestParseTestlist(t *testing.T) {
	list := `# a comment
sendrecv1 4
icsend 4 arg=-randomize=1 timeLimit=60   # trailing
greq1 1 env=A=b mem=6.5
../util/tool
`
	tests, err := parseTestlist(strings.NewReader(list), "pt2pt")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"pt2pt/sendrecv1 4",
		"pt2pt/icsend 4 arg=-randomize=1",
		"pt2pt/greq1 1 env=A=b",
		"util/tool 2",
	}
	if len(tests) != len(want) {
		t.Fatalf("got %d tests, want %d: %+v", len(tests), len(want), tests)
	}
	for i, name := range want {
		if tests[i].Name != name {
			t.Errorf("test %d is named %q, want %q", i, tests[i].Name, name)
		}
	}
	if tests[2].Memory != 6.5 || tests[2].Env[0] != "A=b" {
		t.Errorf("options of greq1 were read as %+v", tests[2])
	}
}

func TestParseTestlistFolders(t *testing.T) {
	tests, err := parseTestlist(strings.NewReader("attr\nio\npt2pt\n"), "f08")
	if err != nil {
		t.Fatal(err)
	}
	if len(tests) != 2 || tests[0].Dir != "f08/attr" || tests[1].Dir != "f08/pt2pt" {
		t.Errorf("folders were read as %+v", tests)
	}
}

func TestParseTestlistBadRanks(t *testing.T) {
	if _, err := parseTestlist(strings.NewReader("prog many\n"), "coll"); err == nil {
		t.Error("a line with a bad number of ranks was taken")
	}
}

func TestVerdict(t *testing.T) {
	cases := []struct {
		stdout string
		status int
		want   bool
	}{
		{" No Errors\n", 0, true},
		{"No errors\n", 0, true},
		{" No Errors\n", 1, false},
		{" Found 3 errors\n", 0, false},
		{"", 0, false},
	}
	for _, c := range cases {
		if got := saysNoErrors([]byte(c.stdout)) && c.status == 0; got != c.want {
			t.Errorf("stdout %q with status %d: passed is %v", c.stdout, c.status, got)
		}
	}
}

func TestForeignNotes(t *testing.T) {
	const off = "mpitrace: act mode is off, the job is only observed: "
	want := []string{"mpitrace: cannot do this", off + "ranks did not report"}
	stderr := "application text\n" + strings.Join(want, "\n") +
		"\nmpitrace: result in here\n" + off + "no rank came to the end of MPI_Init (sessions are only observed)\n"
	if got := foreignNotes([]byte(stderr)); !slices.Equal(got, want) {
		t.Errorf("notes of the shim were read as %q", got)
	}
}
