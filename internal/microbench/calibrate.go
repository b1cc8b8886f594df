package microbench

import "strconv"

// Calibration is the time of one message within a node: a start and so much
// for each byte (Hockney 1994).
type Calibration struct {
	Where
	StartupNS, NSPerByte float64
}

// Calibration is what the latency benchmark says of an undisturbed message: a
// line through the fastest block of the smallest and of the largest size. There is none of a smoke run, of ranks on
// several nodes, or of figures that contradict the model.
func (r *Report) Calibration() (Calibration, bool) {
	for _, b := range r.Benchmarks {
		if b.Name != "latency" || b.Error != "" || r.Quick || b.where.Node == "" || b.where.MPI == "" {
			continue
		}
		var bytes, ns []float64
		for _, row := range b.Rows {
			size, err := strconv.ParseFloat(dimOf(row.Dims, "size"), 64)
			for _, c := range row.Context {
				if err == nil && c.Key == "best_us" {
					bytes, ns = append(bytes, size), append(ns, c.Median*1000)
				}
			}
		}
		if c, ok := line(bytes, ns); ok {
			c.Where = b.where
			return c, true
		}
	}
	return Calibration{}, false
}

func dimOf(dims []Dim, key string) string {
	for _, d := range dims {
		if d.Key == key {
			return d.Value
		}
	}
	return ""
}

// line goes through the points of the smallest and the largest size.
func line(bytes, ns []float64) (Calibration, bool) {
	if len(bytes) < 2 {
		return Calibration{}, false
	}
	low, high := 0, 0
	for i := range bytes {
		if bytes[i] < bytes[low] {
			low = i
		}
		if bytes[i] > bytes[high] {
			high = i
		}
	}
	slope := (ns[high] - ns[low]) / (bytes[high] - bytes[low])
	c := Calibration{NSPerByte: slope, StartupNS: ns[low] - slope*bytes[low]}
	return c, slope > 0 && c.StartupNS > 0
}
