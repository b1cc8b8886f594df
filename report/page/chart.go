package page

import (
	"fmt"
	"math"
	"strings"
)

// chart is vertical bars over a common base line.
type chart struct {
	Title         string
	Label         string // what it shows, in words, for those who do not see it
	Width, Height int
	Bars          []bar
	Lines         []gridLine
	Ticks         []tick
	Left, Right   string // ends of the base line
	Base          string
	TickY         string
}

// bar is one bar; its part is filled from the base, the rest above it is pale.
type bar struct {
	X, Width     string
	Y, Height    string // the part
	RestY, RestH string // what is above the part; empty for none
	Mark         string // path of the range marked on it
	Text         string // what it says when pointed at
}

type gridLine struct{ Y, Text, TextY string }

type tick struct{ X, Text string }

// column is a bar before it is drawn: Part of Whole is filled. Low and High
// mark a range if High is more.
type column struct {
	Name        string // below the base line
	Text        string
	Whole, Part float64
	Low, High   float64
}

const (
	chartLeft   = 68 // room for the figures of the axis
	chartTop    = 8
	chartBottom = 24
)

// newChart draws columns; axis writes a figure of the vertical axis, which ends
// at top, or at the largest column if that is 0.
func newChart(title string, width, height int, columns []column, top float64, axis func(float64) string) *chart {
	for _, c := range columns {
		top = max(top, c.Whole, c.High)
	}
	if top <= 0 {
		top = 1
	}
	base := height - chartBottom
	c := &chart{Title: title, Width: width, Height: height, Base: fmt.Sprint(base), TickY: fmt.Sprint(base + 16), Left: fmt.Sprint(chartLeft), Right: fmt.Sprint(width)}
	y := func(v float64) float64 { return float64(base) - v/top*float64(base-chartTop) }
	for v, step := lineStep(top), lineStep(top); v <= top; v += step {
		c.Lines = append(c.Lines, gridLine{number(y(v)), axis(v), number(y(v) + 4)})
	}
	step := float64(width-chartLeft) / float64(max(1, len(columns)))
	wide := min(max(step-min(2, step/4), 0.5), 56)
	for i := range columns {
		c.Bars = append(c.Bars, newBar(&columns[i], float64(chartLeft)+step*float64(i)+(step-wide)/2, wide, float64(base), y))
	}
	c.addTicks(columns, step)
	return c
}

// lineStep is the distance of the lines across a chart: the largest of 1, 2 and
// 5 and their tenfolds that gives at least two.
func lineStep(top float64) float64 {
	ten := math.Pow(10, math.Floor(math.Log10(top/2)))
	for _, v := range []float64{5, 2} {
		if v*ten <= top/2 {
			return v * ten
		}
	}
	return ten
}

func newBar(c *column, x, wide, base float64, y func(float64) float64) bar {
	// What is there is seen, however small.
	seen := func(v float64) float64 {
		if v > 0 {
			return min(y(v), base-1.5)
		}
		return base
	}
	part, whole := seen(c.Part), seen(c.Whole)
	b := bar{X: number(x), Width: number(wide), Y: number(part), Height: number(base - part), Text: c.Text}
	if whole < part {
		b.RestY, b.RestH = number(whole), number(part-whole)
	}
	if c.High > c.Low {
		middle := number(x + wide/2)
		b.Mark = fmt.Sprintf("M%s %sV%s", middle, number(y(c.Low)), number(y(c.High)))
	}
	return b
}

// addTicks names as many columns as have room.
func (c *chart) addTicks(columns []column, step float64) {
	widest := 0
	for i := range columns {
		widest = max(widest, len([]rune(columns[i].Name)))
	}
	every := 1
	for float64(every)*step < float64(widest)*6.5+8 && every < len(columns) {
		every *= 2
	}
	for i := 0; i < len(columns); i += every {
		c.Ticks = append(c.Ticks, tick{number(chartLeft + step*(float64(i)+0.5)), columns[i].Name})
	}
}

// say makes the text alternative: all columns, or the largest of many.
func (c *chart) say(intro string, columns []column) *chart {
	const said = 8
	shown := columns
	if len(columns) > said {
		shown = largest(columns)
	}
	var parts []string
	for i := range shown[:min(len(shown), said)] {
		parts = append(parts, shown[i].Text)
	}
	c.Label = intro + ": " + strings.Join(parts, "; ")
	if rest := len(columns) - len(parts); rest > 0 {
		c.Label += fmt.Sprintf("; %d more", rest)
	}
	return c
}
