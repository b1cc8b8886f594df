package microbench

import "slices"

// Published is what a paper says of one metric. It was measured on other
// hardware, often with another protocol: a reference, never a target.
type Published struct {
	benchmark, metric string
	dims              []Dim // of the rows it stands beside; nil: it is only listed

	Text    string   `json:"text"`
	Figures []Figure `json:"figures"` // in the unit of the metric unless the text says otherwise
	Source  string   `json:"source"`
}

// Figure is one published value, as it is printed there.
type Figure struct {
	On    string `json:"on"`
	Value string `json:"value"`
}

func at(pairs ...string) []Dim {
	var out []Dim
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, Dim{pairs[i], pairs[i+1]})
	}
	return out
}

// published holds only what the papers print in prose or tables; their curves
// are not known.
var published = []Published{
	{"latency", "half_rtt_us", at("size", "8"), "MPI latency of small messages, us",
		[]Figure{{"IB", "1.5"}, {"iWARP", "~7"}, {"Myrinet", "3"}, {"10GE", "~13"}}, "Rashti 2010, 3.3.2, Fig 3.3"},
	{"latency", "half_rtt_us", nil, "user-level latency, us: the MPI overhead is the difference to it",
		[]Figure{{"IB", "1.2"}, {"iWARP", "6.6"}, {"Myrinet", "2.9"}}, "Rashti 2010, 3.3.1, Fig 3.1"},
	{"latency", "half_rtt_us", nil, "4-byte write on one or two rails, us",
		[]Figure{{"QsNetII", "2-2.77"}}, "Qian 2010, 3.3"},

	{"bandwidth", "mb_s", at("mode", "bidirectional", "size", "1048576"), "MPI ping-pong bandwidth, highest, MB/s",
		[]Figure{{"IB", "1600"}, {"iWARP", "1100"}, {"Myrinet", "1200"}}, "Rashti 2010, 3.3.2, Fig 3.5"},
	{"bandwidth", "mb_s", at("mode", "both-way", "size", "1048576"), "MPI both-way bandwidth, highest, MB/s",
		[]Figure{{"IB", "~3200"}, {"iWARP", "2300"}, {"Myrinet", "2300"}}, "Rashti 2010, 3.3.2"},
	{"bandwidth", "mb_s", at("mode", "both-way", "size", "65536"), "MPI both-way bandwidth at 64 KB, MB/s",
		[]Figure{{"10GE", "1400"}}, "Rashti 2010, 3.3.2"},
	{"bandwidth", "mb_s", nil, "user-level both-way bandwidth, MB/s",
		[]Figure{{"IB", "~3100"}, {"iWARP", "2200"}, {"Myrinet", ">2300"}}, "Rashti 2010, 3.3.1, Fig 3.2"},
	{"bandwidth", "mb_s", nil, "both-way put, MB/s",
		[]Figure{{"QsNetII, one rail", "670"}, {"two rails", "1332"}}, "Qian 2010, 3.3"},

	{"reuse", "reuse_ratio", at("size", "16384"), "highest ratio, at 16 KB", []Figure{{"IB", "6.7"}}, "Rashti 2010, 3.5.2, Fig 3.12"},
	{"reuse", "reuse_ratio", at("size", "32768"), "highest ratio, at 32 KB", []Figure{{"iWARP", "2.8"}}, "Rashti 2010, 3.5.2, Fig 3.12"},
	{"reuse", "reuse_ratio", at("size", "1048576"), "highest ratio, at 1 MB", []Figure{{"Myrinet", "~2.3"}}, "Rashti 2010, 3.5.2, Fig 3.12"},
	{"reuse", "reuse_ratio", at("size", "512"), "impact up to 512 bytes", []Figure{{"all networks", "< 20 %"}}, "Rashti 2010, 3.5.2"},
	{"reuse", "reuse_ratio", nil, "highest ratio of eager messages",
		[]Figure{{"IB", "1.7"}, {"iWARP", "<1.4"}, {"Myrinet", "1.9"}}, "Rashti 2010, 3.5.2, Fig 3.12"},

	{"spectrum", "half_rtt_us", at("size", "8192"), "gain of their zero-copy eager protocol, at most, at 8 KB",
		[]Figure{{"ConnectX DDR", "12.7 %"}}, "Rashti 2010, 5.5.1, Fig 5.6"},

	{"registration", "pin_us", at("size", "4096"), "mlock of 4 KiB, us; munlock about two thirds of it",
		[]Figure{{"KVM guest", "1.75"}}, "platform-facts.md, this project"},
	{"registration", "pin_us", at("size", "16777216"), "mlock of 16 MiB, us; 113 ns a page",
		[]Figure{{"KVM guest", "462"}}, "platform-facts.md, this project"},
	{"registration", "pin_us", nil, "registration against deregistration",
		[]Figure{{"iWARP", "dearer at all sizes"}, {"IB", "small buffers: deregistration somewhat dearer"}}, "Rashti 2010, 3.5.1"},

	{"overlap-send", "overlap_pct", nil, "W/T of 1 MB, W = 1800 us, on one processor, %; the side is not said",
		[]Figure{{"read + interrupt", "99.5"}, {"read", "62.2"}, {"write", "59"}}, "Sur 2006"},
	{"overlap-send", "overlap_pct", at("size", "1048576", "method", "eq3.4"), "send overlap at 1 MB",
		[]Figure{{"RGET", "approaches 100"}, {"RPUT", "very low"}}, "Rashti 2010, 3.6.1"},
	{"overlap-send", "overlap_pct", at("size", "8192", "method", "eq3.4"), "send overlap of eager messages",
		[]Figure{{"all networks", "high"}}, "Rashti 2010, 3.6.1"},
	{"overlap-recv", "overlap_pct", nil, "W/T of 1 MB, W = 1800 us, on one processor, %; the side is not said",
		[]Figure{{"read + interrupt", "99.5"}, {"read", "62.2"}, {"write", "59"}}, "Sur 2006"},
	{"overlap-recv", "overlap_pct", at("size", "1048576", "method", "eq3.4"), "receive overlap above the eager switch, %",
		[]Figure{{"RGET, RPUT", "collapses"}, {"iWARP, MPICH2", "<10"}, {"with their RTR", ">80"}}, "Rashti 2010, 3.6.1 and 4.4.1"},

	{"exchange", "turn_us", at("size", "131072", "model", "1"), "gain of their RTR at 128 KB, at most, where communication is about 80 % of computation",
		[]Figure{{"iWARP, RTR and write", "32 %"}}, "Rashti 2010, 4.4.1, Fig 4.15"},
	{"exchange", "turn_us", at("size", "131072", "model", "2"), "gain of their initial progress at 128 KB, at most, where communication is about 50 % of computation",
		[]Figure{{"iWARP, RTS and read", "~20 %"}}, "Rashti 2010, 4.4.1, Fig 4.16"},
	{"crossing", "exchange_us", at("cross", "large", "size", "1024"), "overhead of crossed requests, eager", []Figure{{"iWARP", "<1 %"}}, "Rashti 2010, 4.4.3, Fig 4.19"},
	{"crossing", "exchange_us", at("cross", "exact", "size", "131072"), "overhead of crossed requests, rendezvous; without adaptation", []Figure{{"iWARP", "<3 %"}}, "Rashti 2010, 4.4.3, Fig 4.19"},

	{"progress-send", "residual_pct", at("size", "8192"), "send progress of eager messages", []Figure{{"all networks", "flat"}}, "Rashti 2010, 3.6.2"},
	{"progress-send", "residual_pct", at("size", "262144"), "send progress in rendezvous",
		[]Figure{{"RGET", "flat"}, {"RPUT", "shifted by D"}}, "Rashti 2010, 3.6.2"},
	{"progress-recv", "residual_pct", at("size", "8192"), "receive residual at 8 KB, %", []Figure{{"iWARP", "25"}}, "Rashti 2010, 3.6.2"},
	{"progress-recv", "residual_pct", at("size", "262144"), "receive residual at 256 KB: all of the latency, %",
		[]Figure{{"IB", "100"}, {"iWARP", "100"}}, "Rashti 2010, 3.6.2"},
	{"snapshot", "end_us", at("size", "1048576"), "gain of read with interrupt over write at 1 MB with 1500 us of computation",
		[]Figure{{"IB", "about 50 %"}}, "Sur 2006, progress snapshot"},

	{"arrival", "mean_us", at("op", "alltoall", "mif", "32", "size", "8192"), "alltoall, 8 KB, MIF 32, 16 ranks: gain over native",
		[]Figure{{"PAP_Direct", "3.1x"}}, "Qian 2010, 6.5"},
	{"arrival", "mean_us", at("op", "allgather", "mif", "32", "size", "8192"), "allgather, 8 KB, MIF 32, 16 ranks: gain over native",
		[]Figure{{"PAP_Direct", "3.1x"}}, "Qian 2010, 6.5"},
	{"arrival", "mean_us", at("op", "alltoall", "mif", "512"), "alltoall, MIF 512, 16 ranks: gain over native; the size is not said",
		[]Figure{{"PAP_Direct", "1.5x"}, {"PAP_Shm_Direct", "1.2x"}}, "Qian 2010, 6.5"},
	{"arrival", "mean_us", at("op", "allgather", "mif", "512"), "allgather, MIF 512, 16 ranks: gain over native; the size is not said",
		[]Figure{{"PAP_Direct", "1.3x"}, {"PAP_Shm_Direct", "1.2x"}}, "Qian 2010, 6.5"},
	{"arrival", "mean_us", nil, "MIF 32, 16 ranks: gain over native",
		[]Figure{{"alltoall 4 B, PAP_Shm_Direct", "3.5x"}, {"allgather 1 B, PAP_Shm_Direct", "2.5x"}}, "Qian 2010, 6.5"},

	{"late", "mean_us", at("op", "alltoall", "late_pct", "25"), "PAP against non-PAP alltoall, 25 % late",
		[]Figure{{"all sizes", "always better"}}, "Qian 2010, 6.5, Fig 6.6"},
	{"late", "mean_us", at("op", "alltoall", "late_pct", "75"), "PAP against non-PAP alltoall, 75 % late",
		[]Figure{{"all sizes", "mostly better"}}, "Qian 2010, 6.5, Fig 6.6"},
	{"late", "mean_us", at("op", "allgather", "late_pct", "25"), "PAP_Direct against Direct allgather, 25 % late",
		[]Figure{{"all sizes", "always better"}}, "Qian 2010, 6.5, Fig 6.9"},
	{"late", "mean_us", at("op", "allgather", "late_pct", "75"), "PAP_Direct against Direct allgather, 75 % late",
		[]Figure{{"above 4 KB", "better"}}, "Qian 2010, 6.5, Fig 6.9"},

	{"multipair", "normalized_us", nil, "half round trip / pairs, small messages",
		[]Figure{{"all networks", "almost no scaling above 4 pairs"}}, "Rashti 2010, 3.4.2"},

	{"collectives", "call_us", at("op", "bcast"), "gain of their zero-copy eager protocol, at most",
		[]Figure{{"ConnectX DDR", "25 %"}, {"2009 paper", "19 %"}}, "Rashti 2010, 5.5.1, Fig 5.9; Rashti and Afsahi 2009"},
	{"collectives", "call_us", at("op", "scatter"), "gain of their zero-copy eager protocol",
		[]Figure{{"ConnectX DDR", "falls above 4.5 KB"}}, "Rashti 2010, 5.5.1"},

	{"onesided", "access_us", at("op", "put", "size", "8192"), "gain of their zero-copy Put at 8 KB; gains above 256 B",
		[]Figure{{"ConnectX DDR", "~20 %"}}, "Rashti 2010, 5.5.1, Fig 5.7"},
	{"onesided", "access_us", at("op", "get", "size", "8192"), "gain of their zero-copy Get at 8 KB; gains above 3 KB",
		[]Figure{{"ConnectX DDR", "~17 %"}}, "Rashti 2010, 5.5.1"},
}

// publishedFor are the figures of a benchmark.
func publishedFor(benchmark string) []Published {
	out := []Published{}
	for _, p := range published {
		if p.benchmark == benchmark {
			out = append(out, p)
		}
	}
	return out
}

// matching are the indices of the figures that belong beside a row.
func matching(list []Published, metric string, dims []Dim) []int {
	out := []int{}
	for i, p := range list {
		missing := slices.ContainsFunc(p.dims, func(d Dim) bool { return !slices.Contains(dims, d) })
		if p.metric == metric && p.dims != nil && !missing {
			out = append(out, i)
		}
	}
	return out
}
