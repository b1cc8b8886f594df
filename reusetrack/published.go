package reusetrack

// App is what the papers print of an application, 16 processes.
type App struct {
	Name    string  `json:"name"`
	MaxUses Range   `json:"max_uses"` // as in Table1
	Bytes   Range   `json:"bytes"`
	Reused  float64 `json:"reused_percent"`   // as in Table1
	Often   float64 `json:"frequent_percent"` // as in Table2, at a quarter of the minimum
	Result  string  `json:"result"`           // what sending from reused buffers gained there
}

// PublishedApps is for comparison, never for decisions.
//
// Source: Rashti and Afsahi 2009 and 2011, Tables 1 and 2; means from Rashti's
// thesis (2010), Table 5.1; four nodes with two dual-core processors and
// ConnectX DDR.
func PublishedApps() []App {
	return []App{
		{"NPB CG class C", Range{7904, 7904, 7904}, Range{8, 8, 8}, 42.94, 0, "less than 1 %"},
		{"NPB LU class C", Range{3749, 3750, 3749}, Range{1560, 1640, 1600}, 98.71, 32.9, "send time -18.3 % (2011), -10.6 % (2009)"},
		{"ASC AMG2006", Range{45, 292, 119}, Range{8, 3648, 770}, 76.86, 8.7, "communication time +6 %, +2 % with adaptation"},
		{"SPEC MPI2007 104.milc", Range{2, 5010, 2049}, Range{8, 4800, 2876}, 44.26, 22.6, "send time -7 % (2011), -8.1 % (2009)"},
	}
}

// Minimum is the published least number of uses for one size; 0: none is
// printed.
type Minimum struct {
	Bytes    uint64 `json:"bytes"`
	Fast     uint64 `json:"fast"`     // RDMA Write into a polled slot
	NonFast  uint64 `json:"non_fast"` // Send/Receive
	OneSided uint64 `json:"one_sided"`
	Fast2009 uint64 `json:"fast_2009"` // the same path in the paper of 2009
}

// PublishedMinimums is for comparison and tests: other machines have other
// numbers.
//
// Source: Rashti and Afsahi 2011 and 2009; the first three also in Table 5.3 of
// the thesis, which calls the first row "below 1 KB".
func PublishedMinimums() []Minimum {
	return []Minimum{
		{128, 0, 0, 0, 1280},
		{256, 0, 0, 0, 755},
		{512, 432, 1568, 196, 432},
		{1024, 200, 448, 128, 200},
		{2048, 110, 224, 128, 109},
		{3072, 76, 131, 125, 0},
		{4096, 60, 95, 56, 59},
		{5120, 48, 75, 33, 0},
		{6144, 40, 65, 29, 0},
		{7168, 36, 55, 26, 0},
		{8192, 32, 49, 25, 33},
	}
}
