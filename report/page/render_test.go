package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/png"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/report"
)

// pageLimit is how many bytes a page may have.
const pageLimit = 5_000_000

// sections of every page, by id.
var sections = []string{"findings", "overview", "functions", "places", "messages", "arrivals", "requests", "buffers", "sizes", "ranks", "more"}

// TestBrowser looks at the pages of small and large jobs in a browser.
func TestBrowser(t *testing.T) {
	for _, ranks := range []int{4, 4096} {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			address, bytes := save(t, load(t, uneven(ranks), report.Options{}))
			if bytes > pageLimit {
				t.Errorf("the page has %d bytes, at most %d are expected", bytes, pageLimit)
			}
			ctx := open(t, address)
			t.Run("sections", func(t *testing.T) { checkSections(t, ctx) })
			t.Run("names", func(t *testing.T) { checkNames(t, ctx) })
			t.Run("sorting", func(t *testing.T) { checkSorting(t, ctx) })
			t.Run("filter", func(t *testing.T) { checkFilter(t, ctx) })
			t.Run("matrix", func(t *testing.T) { checkMap(t, ctx, "matrix-map", ranks) })
			t.Run("raster", func(t *testing.T) { checkMap(t, ctx, "raster-map", ranks) })
			for _, scheme := range []string{"light", "dark"} {
				t.Run(scheme, func(t *testing.T) { checkColors(t, ctx, scheme, ranks) })
			}
			t.Run("print", func(t *testing.T) { checkPrint(t, ctx, ranks) })
			t.Run("narrow", func(t *testing.T) { checkNarrow(t, ctx) })
		})
	}
}

// checkSections: all sections are seen and say something, and the maps have
// more than one colour.
func checkSections(t *testing.T, ctx context.Context) {
	got := ask[[]string](t, ctx, `[...document.querySelectorAll("main > section")].filter(s => s.checkVisibility() && s.innerText.length > 40).map(s => s.id)`)
	if !slices.Equal(got, sections) {
		t.Errorf("sections %v, want %v", got, sections)
	}
	if n := ask[int](t, ctx, `document.querySelectorAll("figure.chart svg rect").length`); n < 20 {
		t.Errorf("only %d bars are drawn", n)
	}
	for _, id := range []string{"matrix-map", "raster-map"} {
		least := 60
		if id == "matrix-map" {
			least = 5
		}
		if n := ask[int](t, ctx, colorsOf(id)); n < least {
			t.Errorf("the cells of %s have %d colours, at least %d are expected", id, n, least)
		}
	}
}

// colorsOf counts the colours of the cells of a map, without its axes and legend.
func colorsOf(id string) string {
	return fmt.Sprintf(`(() => {
		const canvas = document.querySelector("#%s canvas");
		const pixels = new Uint32Array(canvas.getContext("2d").getImageData(80, 40, canvas.width - 160, canvas.height - 100).data.buffer);
		return new Set(pixels).size;
	})()`, id)
}

// checkNames: what can be operated, and each picture, has a name.
func checkNames(t *testing.T, ctx context.Context) {
	seen := map[string]int{}
	for _, n := range call(t, ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		role := textOf(n.Role)
		operated := slices.ContainsFunc(n.Properties, func(p *accessibility.Property) bool {
			return p.Name == accessibility.PropertyNameFocusable && string(p.Value.Value) == "true"
		})
		if n.Ignored || role == "RootWebArea" || !operated && !slices.Contains([]string{"image", "img", "table", "region", "navigation"}, role) {
			continue
		}
		seen[role]++
		if name := textOf(n.Name); !strings.ContainsFunc(name, unicode.IsLetter) {
			t.Errorf("a node of role %q has the name %q", role, name)
		}
	}
	for _, role := range []string{"link", "button", "image", "table", "region", "application", "searchbox"} {
		if seen[role] == 0 {
			t.Errorf("no node of role %q was seen: %v", role, seen)
		}
	}
}

// textOf is the text of a value of the tree.
func textOf(v *accessibility.Value) (text string) {
	if v == nil || json.Unmarshal(v.Value, &text) != nil {
		return ""
	}
	return text
}

// columnText is the texts of a column of a table, as far as rows are shown.
func columnText(by string, index int) string {
	return fmt.Sprintf(`[...document.querySelectorAll("#table-%s tbody tr")].filter(r => r.checkVisibility()).map(r => r.cells[%d].innerText.trim())`, by, index)
}

// checkSorting sorts the functions with the keyboard alone.
func checkSorting(t *testing.T, ctx context.Context) {
	values := `[...document.querySelectorAll("#table-call tbody tr")].map(r => Number(r.cells[1].dataset.v))`
	for _, want := range []string{"descending", "ascending"} {
		press(t, ctx, "#table-call th:nth-child(2) button", kb.Enter)
		got := ask[[]float64](t, ctx, values)
		sorted := slices.Clone(got)
		slices.Sort(sorted)
		if want == "descending" {
			slices.Reverse(sorted)
		}
		if state := ask[string](t, ctx, `document.querySelector("#table-call th:nth-child(2)").ariaSort`); state != want || !slices.Equal(got, sorted) {
			t.Errorf("sorted by calls: aria-sort %q, want %q: %v", state, want, got)
		}
	}
	press(t, ctx, "#table-call th:nth-child(1) button", " ")
	if got := ask[[]string](t, ctx, columnText("call", 0)); !slices.IsSorted(got) || len(got) == 0 {
		t.Errorf("sorted by name: %v", got)
	}
	if n := ask[int](t, ctx, `document.querySelectorAll("#table-call th[aria-sort]").length`); n != 1 {
		t.Errorf("%d columns claim to be sorted by", n)
	}
}

// checkFilter shows all rows, then those with a word.
func checkFilter(t *testing.T, ctx context.Context) {
	if n := len(ask[[]string](t, ctx, columnText("site", 1))); n != 12 {
		t.Errorf("%d rows at first, want 12", n)
	}
	press(t, ctx, "#table-site + .tools button", kb.Enter)
	if n := len(ask[[]string](t, ctx, columnText("site", 1))); n != 129 {
		t.Errorf("%d rows in all, want 129", n)
	}
	press(t, ctx, "#table-site + .tools input", "heat.c:9")
	if got := ask[[]string](t, ctx, columnText("site", 1)); len(got) != 2 || !slices.Contains(got, "heat.c:91") {
		t.Errorf("rows with heat.c:9: %v", got)
	}
}

// checkMap walks and zooms with the keyboard.
func checkMap(t *testing.T, ctx context.Context, id string, ranks int) {
	readout := fmt.Sprintf(`document.querySelector("#%s output").textContent`, id)
	box := "#" + id + " .canvas"
	corner := "rank 0"
	if ranks > 512 {
		corner = "ranks 0–7"
	}
	press(t, ctx, box)
	for range 52 {
		do(t, ctx, chromedp.KeyEvent(kb.ArrowUp, chromedp.KeyModifiers(chromedp.ModifierShift)), chromedp.KeyEvent(kb.ArrowLeft, chromedp.KeyModifiers(chromedp.ModifierShift)))
	}
	press(t, ctx, box, slices.Repeat([]string{kb.ArrowUp, kb.ArrowLeft}, 3)...)
	start := ask[string](t, ctx, readout)
	if !strings.Contains(start, corner+" to "+corner) && !strings.Contains(start, "operation 8, "+corner+":") {
		t.Errorf("in the corner, %q is read", start)
	}
	whole := ask[string](t, ctx, pictureOf(id))
	press(t, ctx, box, kb.ArrowDown, kb.ArrowRight)
	if moved := ask[string](t, ctx, readout); moved == start || moved == "" {
		t.Errorf("the arrow keys do not move: %q", moved)
	}
	press(t, ctx, box, kb.ArrowUp, kb.ArrowLeft)
	if back := ask[string](t, ctx, readout); back != start {
		t.Errorf("back in the corner, %q is read, want %q", back, start)
	}
	for _, zoom := range []struct{ selector, in, out string }{{box, "+", "0"}, {"#" + id + " [data-do=%s]", "in", "all"}} {
		if zoom.selector == box {
			press(t, ctx, box, zoom.in)
		} else {
			press(t, ctx, fmt.Sprintf(zoom.selector, zoom.in), kb.Enter)
		}
		// Four cells are as near as it gets.
		if near := ask[string](t, ctx, pictureOf(id)); (ranks > 4 || id == "raster-map") && near == whole {
			t.Errorf("%s %s does not zoom", zoom.selector, zoom.in)
		}
		if zoom.selector == box {
			press(t, ctx, box, zoom.out)
		} else {
			press(t, ctx, fmt.Sprintf(zoom.selector, zoom.out), kb.Enter)
		}
		if again := ask[string](t, ctx, pictureOf(id)); again != whole {
			t.Errorf("%s %s does not show all as before", zoom.selector, zoom.out)
		}
	}
}

func pictureOf(id string) string {
	return fmt.Sprintf(`document.querySelector("#%s canvas").toDataURL()`, id)
}

// emulate chooses the medium, empty for a screen, and the scheme.
func emulate(t *testing.T, ctx context.Context, medium, scheme string) {
	t.Helper()
	call(t, ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: medium,
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// checkColors computes the contrasts in a scheme.
func checkColors(t *testing.T, ctx context.Context, scheme string, ranks int) {
	ask[bool](t, ctx, `(before = `+pictureOf("matrix-map")+`, true)`)
	emulate(t, ctx, "", scheme)
	for _, fault := range ask[[]string](t, ctx, contrasts) {
		t.Error(fault)
	}
	if n := ask[int](t, ctx, `document.querySelectorAll("main *").length`); n < 500 {
		t.Errorf("only %d elements were looked at", n)
	}
	if scheme == "dark" {
		await(t, ctx, "the map is drawn anew for the dark scheme", pictureOf("matrix-map")+" !== before")
	}
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := png.DecodeConfig(bytes.NewReader(picture)); err != nil {
		t.Error(err)
	}
	keep(t, fmt.Sprintf("%d-%s.png", ranks, scheme), picture)
}

// contrasts lists texts with a contrast (WCAG 2.2, 1.4.3) below 4.5 to what is
// behind them, and drawings below 3 (1.4.11).
const contrasts = `(() => {
	const channels = (color) => {
		const g = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
		g.fillStyle = color;
		g.fillRect(0, 0, 1, 1);
		return [...g.getImageData(0, 0, 1, 1).data];
	};
	const memo = new Map();
	const parsed = (color) => memo.get(color) ?? memo.set(color, channels(color)).get(color);
	const luminance = (color) => {
		const [r, g, b] = parsed(color).slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const contrast = (a, b) => (Math.max(luminance(a), luminance(b)) + 0.05) / (Math.min(luminance(a), luminance(b)) + 0.05);
	const behind = (e) => {
		for (; e; e = e.parentElement) {
			const color = getComputedStyle(e).backgroundColor;
			if (parsed(color)[3] === 255) return color;
		}
		return "white";
	};
	const faults = new Set();
	for (const e of document.querySelectorAll("body *")) {
		if (!e.checkVisibility()) continue;
		const style = getComputedStyle(e), back = behind(e);
		const drawn = e instanceof SVGElement;
		if ([...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim() !== "") && e.tagName !== "title") {
			const c = contrast(drawn ? style.fill : style.color, back);
			if (c < 4.5) faults.add(e.tagName + "." + e.getAttribute("class") + " in " + e.parentElement.tagName + ": text contrast " + c.toFixed(2));
		}
		if (e.tagName === "rect" || e.classList.contains("base")) {
			const c = Math.max(...[style.fill, style.stroke].filter((v) => v !== "none").map((v) => contrast(v, back)));
			if (c < 3) faults.add(e.tagName + "." + e.getAttribute("class") + ": contrast " + c.toFixed(2));
		}
	}
	return [...faults];
})()`

// checkPrint: on paper the page is light, maps included, and has no controls.
func checkPrint(t *testing.T, ctx context.Context, ranks int) {
	emulate(t, ctx, "print", "dark")
	if n := ask[int](t, ctx, `[...document.querySelectorAll("nav, .controls, .tools button, .tools input, .keys")].filter(e => e.checkVisibility()).length`); n != 0 {
		t.Errorf("%d controls are on paper", n)
	}
	if color := ask[string](t, ctx, `getComputedStyle(document.body).color`); color != "rgb(27, 32, 38)" {
		t.Errorf("the text is %s on paper", color)
	}
	emulate(t, ctx, "", "dark")
	ask[bool](t, ctx, `(addEventListener("beforeprint", () => {
		onPaper = document.querySelector("#matrix-map canvas").toDataURL();
		noneOnPaper = getComputedStyle(document.documentElement).getPropertyValue("--none");
	}), true)`)
	dark := ask[string](t, ctx, pictureOf("matrix-map"))
	background := true
	paper := call(t, ctx, cdppage.PrintToPDF, cdppage.PrintToPDFParams{PrintBackground: &background, PaperWidth: 8.27, PaperHeight: 11.69}).Data
	if !bytes.HasPrefix(paper, []byte("%PDF")) {
		t.Error("the page does not print")
	}
	keep(t, fmt.Sprintf("%d-print.pdf", ranks), paper)
	if printed := ask[string](t, ctx, "onPaper"); printed == "" || printed == dark {
		t.Error("the map was not drawn for paper")
	}
	if color := ask[string](t, ctx, "noneOnPaper"); color != "#eceff2" {
		t.Errorf("the map was drawn for paper with %s for empty cells, the colour of a dark screen", color)
	}
	// Afterwards it fits the screen again.
	await(t, ctx, "the map is drawn for the screen after printing", pictureOf("matrix-map")+
		` !== onPaper && document.querySelector("#matrix-map canvas").width === document.querySelector("#matrix-map .canvas").clientWidth`)
	if ask[bool](t, ctx, `document.documentElement.classList.contains("paper")`) {
		t.Error("the page keeps the colours of paper")
	}
	emulate(t, ctx, "", "light")
}

// checkNarrow: on a narrow screen only tables scroll sideways.
func checkNarrow(t *testing.T, ctx context.Context) {
	do(t, ctx, chromedp.EmulateViewport(380, 800))
	if wide := ask[int](t, ctx, `document.documentElement.scrollWidth`); wide > 380 {
		t.Errorf("the page is %d pixels wide on a screen of 380", wide)
	}
	do(t, ctx, chromedp.EmulateReset())
}

// TestHostileNames: names of a job that are scripts stay text.
func TestHostileNames(t *testing.T) {
	address, _ := save(t, load(t, hostile(), report.Options{}))
	ctx := open(t, address)
	if ask[bool](t, ctx, `typeof pwned !== "undefined"`) {
		t.Error("a script of the job ran")
	}
	if n := ask[int](t, ctx, `document.images.length + document.scripts.length`); n != 2 {
		t.Errorf("%d images and scripts, want the two scripts of the page", n)
	}
	if shown := ask[bool](t, ctx, `document.querySelector("h1").textContent.includes("<img src=x onerror=pwned=1>")`); !shown {
		t.Error("the command line is not shown as it is")
	}
	if shown := ask[bool](t, ctx, `document.querySelector("#raster-map").textContent.length > 20 && document.querySelector("#table-site").textContent.includes("onerror")`); !shown {
		t.Error("the places are not shown as they are")
	}
}

// TestWithoutScripts: what needs no script is there without.
func TestWithoutScripts(t *testing.T) {
	address, _ := save(t, load(t, uneven(4), report.Options{}))
	ctx := open(t, address, func(ctx context.Context) {
		call(t, ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	})
	for expression, want := range map[string]int{
		`document.querySelectorAll(".findings li").length > 0 ? 1 : 0`:                                                   1,
		`[...document.querySelectorAll("#table-site tbody tr")].filter(r => r.checkVisibility()).length`:                 129,
		`[...document.querySelectorAll(".map .canvas, .map .controls, .tools")].filter(e => e.checkVisibility()).length`: 0,
		`[...document.querySelectorAll("noscript p")].filter(e => e.checkVisibility()).length`:                           2,
		`document.querySelectorAll("#table-peer tbody tr").length > 0 ? 1 : 0`:                                           1,
		`document.querySelectorAll("#table-latest tbody tr").length > 0 ? 1 : 0`:                                         1,
	} {
		if got := ask[int](t, ctx, expression); got != want {
			t.Errorf("%s: %d, want %d", expression, got, want)
		}
	}
}

// TestFiguresOfScript: the script writes figures as package report does.
func TestFiguresOfScript(t *testing.T) {
	address, _ := save(t, load(t, synth.Job{ID: "one", Ranks: 1}, report.Options{}))
	ctx := open(t, address)
	for _, n := range []uint64{
		0, 1, 999, 1000, 1001, 4567, 9994, 9995, 9999, 10_000, 99_949, 99_950, 123_456, 999_499, 999_500, 9_999_999, 10_000_000, 12_345_678,
		999_499_999, 999_500_000, 119_939_999_999, 119_940_000_000, 7_300_000_000_000, 180_000_000_000_000, 1 << 50,
	} {
		got := ask[[]string](t, ctx, fmt.Sprintf(`["duration", "bytes", "count"].map(f => mpitrace.format[f](%d))`, n))
		if want := []string{report.Duration(n), report.Bytes(n), report.Count(n)}; !slices.Equal(got, want) {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
