package main

import (
	"bytes"
	"fmt"
	"strings"
)

// A wrapper has the same shape for every function:
//
//	enter -> go (publish, start the time) -> the MPI library -> stop
//	      -> what its class counts -> leave
//
// body says what a class adds to that shape. The text may name an argument by
// its role in braces: {comm} becomes the argument with the role comm.
type body struct {
	begin    string            // before anything else
	before   string            // declarations and statements before the call
	publish  string            // replaces mt_go(&call)
	replace  map[string]string // role -> expression handed to the MPI library
	after    string            // when counted and the call succeeded
	always   string            // when counted, also after a failure
	failed   string            // when counted and the call failed
	paused   string            // when measurement is paused
	registry string            // when it succeeded, counted or measurement paused
}

const (
	peerless = "mt_go_peer(&call, MT_U64({comm}), -1, -1);"
	sent     = "MT_MESSAGE({sendbuf}, {sendcount}, {sendtype}, {comm}, {dest}, {sendtag})"
	received = "MT_MESSAGE({recvbuf}, {recvcount}, {recvtype}, {comm}, {source}, {recvtag})"
	// of a matched probe: what it found is no wildcard any more, but not known
	taken     = "MT_Message message = {message} != NULL ? *{message} : (MT_Message)0; struct mt_matched found = mt_message_take(MT_U64(message));"
	matched   = "MT_MESSAGE_IN({recvbuf}, {recvcount}, {recvtype}, found, message)"
	sending   = "MT_MESSAGE({sendbuf}, {sendtotal}, {sendtype}, {comm}, {dest}, {sendtag})"
	receiving = "MT_MESSAGE({recvbuf}, {recvtotal}, {recvtype}, {comm}, {source}, {recvtag})"
	statusIn  = "MT_Status own; MT_Status *status = {status} != MT_STATUS_IGNORE ? {status} : &own;"
)

// bodies by class. Classes without an entry count calls and time only.
var bodies = map[string]body{
	"send": {
		publish: "mt_go_peer(&call, MT_U64({comm}), {dest}, {sendtag});",
		after:   "mt_body_send(&call, " + sent + ");",
	},
	"isend": {
		publish: "mt_go_peer(&call, MT_U64({comm}), {dest}, {sendtag});",
		after:   "mt_body_isend(&call, " + sent + ", {request});",
	},
	"recv": {
		before:  statusIn,
		publish: "mt_go_peer(&call, MT_U64({comm}), {source}, {recvtag});",
		replace: map[string]string{"status": "status"},
		after:   "mt_body_recv(&call, " + received + ", status);",
	},
	"irecv": {
		publish: "mt_go_peer(&call, MT_U64({comm}), {source}, {recvtag});",
		after:   "mt_body_irecv(&call, " + received + ", {request});",
	},
	"send_init": {
		publish: "mt_go_peer(&call, MT_U64({comm}), {dest}, {sendtag});",
		after:   "mt_body_persistent(&call, MT_REQUEST_SEND, {comm}, " + sending + ", {request});",
		paused:  borrowing("mt_body_persistent_paused(&call, MT_REQUEST_SEND, " + sending + ", {request});"),
	},
	"recv_init": {
		publish: "mt_go_peer(&call, MT_U64({comm}), {source}, {recvtag});",
		after:   "mt_body_persistent(&call, MT_REQUEST_RECV, {comm}, " + receiving + ", {request});",
		paused:  borrowing("mt_body_persistent_paused(&call, MT_REQUEST_RECV, " + receiving + ", {request});"),
	},
	"sendrecv": {
		before:  statusIn,
		publish: "mt_go_peer(&call, MT_U64({comm}), {source}, {recvtag});",
		replace: map[string]string{"status": "status"},
		after:   "mt_body_sendrecv(&call, " + sent + ", " + received + ", status);",
	},
	"isendrecv": {
		publish: "mt_go_peer(&call, MT_U64({comm}), {source}, {recvtag});",
		after:   "if ({dest} == MT_PROC_NULL) {\n            mt_count_comm(&call, MT_U64({comm}));\n        }\n        mt_body_send(&call, " + sent + ");\n        mt_body_posted(&call, " + received + ", {request});",
	},
	"mrecv": {
		before:  statusIn + " " + taken,
		replace: map[string]string{"status": "status"},
		after:   "mt_body_recv(&call, " + matched + ", status);",
	},
	"imrecv": {
		before: taken,
		after:  "mt_body_irecv(&call, " + matched + ", {request});",
	},
	"probe": {
		publish: "mt_go_peer(&call, MT_U64({comm}), {source}, {recvtag});",
		after:   "mt_count_comm(&call, MT_U64({comm}));",
	},
	"mprobe": {
		publish:  "mt_go_peer(&call, MT_U64({comm}), {source}, {recvtag});",
		after:    "mt_count_comm(&call, MT_U64({comm}));",
		registry: "mt_body_matched(&call, *{message}, {comm});",
	},
	"improbe": {
		publish:  "mt_go_peer(&call, MT_U64({comm}), {source}, {recvtag});",
		after:    "mt_count_comm(&call, MT_U64({comm}));",
		registry: "if (*{flag} != 0) {\n            mt_body_matched(&call, *{message}, {comm});\n        }",
	},
	"start": {
		before: "uint64_t started = {request} != NULL ? MT_U64(*{request}) : 0;",
		after:  "mt_request_activate(&call, started);",
		paused: "if (rc == MT_SUCCESS) {\n            mt_request_unmeasured(started);\n        }",
	},
	"startall": {
		after:  "for (int i = 0; i < {nrequests}; i++) {\n            mt_request_activate(&call, MT_U64({requests}[i]));\n        }",
		paused: "for (int i = 0; rc == MT_SUCCESS && i < {nrequests}; i++) {\n            mt_request_unmeasured(MT_U64({requests}[i]));\n        }",
	},
	"wait": {
		failed:  "mt_body_failed(&call, &pending, {request});",
		paused:  "mt_body_dropped(&pending, {request});",
		publish: "mt_go_request(&call, &pending);",
		before:  statusIn + " struct mt_pending pending; mt_request_find({request} != NULL ? MT_U64(*{request}) : 0, &pending);",
		replace: map[string]string{"status": "status"},
		after:   "mt_body_completed(&call, &pending, status, call.stop - call.start);",
	},
	"test": {
		failed:  "mt_body_failed(&call, &pending, {request});",
		paused:  "mt_body_dropped(&pending, {request});",
		publish: "mt_go_request(&call, &pending);",
		before:  statusIn + " struct mt_pending pending; mt_request_find({request} != NULL ? MT_U64(*{request}) : 0, &pending);",
		replace: map[string]string{"status": "status"},
		after:   "if (*{flag} != 0) {\n            mt_body_completed(&call, &pending, status, call.stop - call.start);\n        }",
	},
	"waitall": {
		paused:  "mt_body_array_dropped(&array, {requests});",
		publish: "mt_go_array(&call, &array);",
		before:  arrayIn("{statuses}") + "\n    MT_NAME(array_persistent)(&array, {statuses});",
		replace: map[string]string{"statuses": "array.given"},
		always:  "mt_body_array_all(&call, &array, {requests}, rc);",
	},
	"testall": {
		paused:  "mt_body_array_dropped(&array, {requests});",
		publish: "mt_go_array(&call, &array);",
		before:  arrayIn("{statuses}"),
		replace: map[string]string{"statuses": "array.statuses"},
		always:  "if (rc != MT_SUCCESS || *{flag} != 0) {\n            mt_body_array_all(&call, &array, {requests}, rc);\n        }",
	},
	"waitany": {
		failed:  "mt_body_array_failed(&call, &array, {requests});",
		paused:  "mt_body_array_dropped(&array, {requests});",
		publish: "mt_go_array(&call, &array);",
		before:  statusIn + " " + arrayIn("MT_STATUS_IGNORE"),
		replace: map[string]string{"status": "status"},
		after:   "if (*{index} != MT_UNDEFINED) {\n            mt_body_array_one(&call, &array, *{index}, status, call.stop - call.start);\n        }",
	},
	"testany": {
		failed:  "mt_body_array_failed(&call, &array, {requests});",
		paused:  "mt_body_array_dropped(&array, {requests});",
		publish: "mt_go_array(&call, &array);",
		before:  statusIn + " " + arrayIn("MT_STATUS_IGNORE"),
		replace: map[string]string{"status": "status"},
		after:   "if (*{flag} != 0 && *{index} != MT_UNDEFINED) {\n            mt_body_array_one(&call, &array, *{index}, status, call.stop - call.start);\n        }",
	},
	"waitsome": {
		failed:  "mt_body_array_some_failed(&call, &array, {requests}, {outcount}, {indices}, rc);",
		paused:  "mt_body_array_dropped(&array, {requests});",
		publish: "mt_go_array(&call, &array);",
		before:  arrayIn("{statuses}"),
		replace: map[string]string{"statuses": "array.statuses"},
		after:   "mt_body_array_some(&call, &array, *{outcount}, {indices}, false);",
	},
	"testsome": {
		failed:  "mt_body_array_some_failed(&call, &array, {requests}, {outcount}, {indices}, rc);",
		paused:  "mt_body_array_dropped(&array, {requests});",
		publish: "mt_go_array(&call, &array);",
		before:  arrayIn("{statuses}"),
		replace: map[string]string{"statuses": "array.statuses"},
		after:   "mt_body_array_some(&call, &array, *{outcount}, {indices}, false);",
	},
	"request_free": {
		before: "struct mt_pending pending; mt_request_find({request} != NULL ? MT_U64(*{request}) : 0, &pending);",
		after:  "mt_request_forget(&call, &pending);",
		paused: "if (rc == MT_SUCCESS) {\n            mt_request_abandon(&pending);\n        }",
	},
	"cancel": {
		before: "__atomic_store_n(&mt_cancel_used, 1, __ATOMIC_RELEASE);",
	},
	"grequest": {
		after: "mt_body_request(&call, MT_REQUEST_OTHER, {request});",
	},
	"iio": {
		after: "mt_count_moved(&call, {filecount}, MT_U64({filetype}));\n        mt_body_request(&call, MT_REQUEST_OTHER, {request});",
	},
	"io": {
		before:  statusIn,
		replace: map[string]string{"status": "status"},
		after:   "mt_count_file(&call, mt_status_bytes(status), MT_U64({filetype}));",
	},
	"rma": {
		publish: "mt_go_peer(&call, mt_registry_win_comm(MT_U64({win})), {target}, -1);",
		after:   "mt_body_rma(&call, {sendbuf}, {target}, {targetcount}, {targettype});",
	},
	"rrma": {
		publish: "mt_go_peer(&call, mt_registry_win_comm(MT_U64({win})), {target}, -1);",
		after:   "mt_body_rma(&call, {sendbuf}, {target}, {targetcount}, {targettype});\n        mt_body_request(&call, MT_REQUEST_OTHER, {request});",
	},
	"rma_sync": {
		publish: "mt_go_peer(&call, mt_registry_win_comm(MT_U64({win})), -1, -1);",
	},
	"win_new": {
		publish:  peerless,
		registry: "mt_registry_win(MT_U64(*{newwin}), MT_U64({comm}));",
	},
	"comm_new": {
		publish:  peerless,
		registry: "MT_NAME(comm_made)({commornull}, *{newcomm}, {id}, {salt});",
	},
	"comm_inew": {
		publish:  peerless,
		after:    "mt_body_request(&call, MT_REQUEST_OTHER, {request});",
		registry: "MT_NAME(comm_duplicated)({comm}, *{newcomm}, {id});",
	},
	"comm_free": {
		before:   "MT_Comm freed = {comm_p} != NULL ? *{comm_p} : MT_COMM_NULL;",
		publish:  "mt_go_peer(&call, MT_U64(freed), -1, -1);",
		registry: "mt_registry_comm_free(MT_U64(freed));",
	},
	"comm_set_name": {registry: "mt_registry_comm_name(MT_U64({comm}), {name});"},
	"type_new":      {registry: "mt_registry_type_made(MT_U64(*{newtype}), {id});"},
	"type_free": {
		before:   "MT_Datatype freed = {type_p} != NULL ? *{type_p} : MT_DATATYPE_NULL;",
		registry: "mt_registry_type_free(MT_U64(freed));",
	},
	// also noted where the call is only forwarded: it may come from a signal handler
	"abort": {begin: "mt_life_abort({errorcode});", publish: "mt_go_peer(&call, MT_U64({comm}), -1, -1);"},
	"session_init": {
		begin:    "mt_life_init_enter();",
		registry: "bool turn = mt_life_turn();\n        MT_NAME(session_begin)(*{session_p});\n        mt_life_session_begin(&MT_NAME(family));\n        mt_life_turn_ends(turn);",
	},
	"session_finalize": {
		before:   "if ({session_p} != NULL) {\n        bool turn = mt_life_turn();\n        MT_NAME(session_end)(*{session_p});\n        mt_life_turn_ends(turn);\n    }",
		registry: "mt_life_session_end();",
	},
}

// borrowing is what looks handles up while measurement is paused, after success.
func borrowing(text string) string {
	return "if (rc == MT_SUCCESS && mt_body_borrow(&call)) {\n            " + text + "\n            mt_body_give_back(&call);\n        }"
}

func arrayIn(statuses string) string {
	return "struct mt_array array;\n    MT_NAME(array_begin)(&array, {nrequests}, {requests}, " + statuses + ");"
}

// abiType is the type of an argument in c/abi/: handles by name, all other
// pointers as they are passed.
func abiType(t string) string {
	constant := strings.HasPrefix(t, "const ")
	b := strings.TrimPrefix(t, "const ")
	stars := strings.Count(b, "*") + strings.Count(b, "[]")
	if strings.Contains(b, "][") {
		stars = 1
		b = b[:strings.IndexByte(b, '[')]
	}
	b = strings.TrimRight(strings.ReplaceAll(b, "[]", ""), "* ")
	switch b {
	case "int", "void", "char", "double":
	case "MPI_Comm", "MPI_Datatype", "MPI_Errhandler", "MPI_Group", "MPI_Info", "MPI_Message", "MPI_Op", "MPI_Request", "MPI_Session", "MPI_Win", "MPI_File", "MPI_Status", "MPI_Aint", "MPI_Count", "MPI_Offset", "MPI_Fint":
		b = "MT_" + strings.TrimPrefix(b, "MPI_")
	case "MPI_T_cb_safety":
		b = "int"
	default: // function pointers and opaque handles of the tools interface
		if strings.HasPrefix(b, "MPI_T_") && stars == 0 {
			return "void *"
		}
		b, constant = "void", false
		stars = max(stars, 1)
	}
	s := b
	if constant {
		s = "const " + s
	}
	if stars > 0 {
		s += " " + strings.Repeat("*", stars)
	}
	return s
}

func (c *call) params(names bool) string {
	var list []string
	for i, a := range c.Args {
		if a.variadic() {
			continue
		}
		t := abiType(a.Type)
		if names {
			if !strings.HasSuffix(t, "*") {
				t += " "
			}
			t += fmt.Sprintf("a%d", i)
		}
		list = append(list, t)
	}
	if len(list) == 0 {
		return "void"
	}
	return strings.Join(list, ", ")
}

// fill replaces {role} by the argument that has it. It panics on a role that
// the function lacks: a class must fit its functions.
func (c *call) fill(text string) string {
	for {
		i := strings.IndexByte(text, '{')
		for i >= 0 {
			j := strings.IndexByte(text[i:], '}')
			if j > 0 && isWord(text[i+1:i+j]) {
				text = text[:i] + c.argument(text[i+1:i+j]) + text[i+j+1:]
				break
			}
			k := strings.IndexByte(text[i+1:], '{')
			if k < 0 {
				i = -1
			} else {
				i += 1 + k
			}
		}
		if i < 0 {
			return text
		}
	}
}

func isWord(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && r != '_' {
			return false
		}
	}
	return s != ""
}

// argument is the C expression for a role.
func (c *call) argument(role string) string {
	switch role {
	case "id":
		return "MPITRACE_CALL_" + strings.TrimPrefix(c.Name, "MPI_")
	case "commornull":
		if _, ok := c.byRole("comm"); !ok {
			return "MT_COMM_NULL"
		}
		return c.argument("comm")
	case "sendtotal", "recvtotal": // partitioned: count per partition
		half := role[:4]
		if _, ok := c.byRole(half + "partitions"); ok {
			return fmt.Sprintf("(int64_t)%s * %s", c.argument(half+"partitions"), c.argument(half+"count"))
		}
		return c.argument(half + "count")
	case "salt":
		if _, ok := c.byRole("grouptag"); ok {
			return "(uint64_t)(uint32_t)" + c.argument("grouptag")
		}
		if _, ok := c.byRole("stringtag"); ok {
			return "mt_text_hash(" + c.argument("stringtag") + ")"
		}
		return "0"
	case "recvbuf", "recvtype", "recvcount": // Sendrecv_replace has one buffer
		if _, ok := c.byRole(role); !ok {
			return c.argument("send" + role[4:])
		}
	case "targetcount", "targettype": // Fetch_and_op, Compare_and_swap: one element
		if _, ok := c.byRole(role); !ok {
			if role == "targetcount" {
				return "1"
			}
			return c.argument("sendtype")
		}
	case "filecount":
		if _, ok := c.byRole(role); !ok {
			return "0"
		}
	}
	for i, a := range c.Args {
		if a.Role == role {
			return fmt.Sprintf("a%d", i)
		}
	}
	panic(fmt.Sprintf("%s (class %s) has no argument with role %q", c.Name, c.Class, role))
}

func (c *call) has(role string) bool {
	_, ok := c.byRole(role)
	return ok
}

// bodyOf is the class's body, worked out for one function.
func (c *call) bodyOf() body {
	b := bodies[c.Class]
	switch c.Class {
	case "coll", "icoll", "coll_init":
		root := "-1"
		b.publish = peerless
		if c.has("root") {
			root = "{root}"
			b.publish = "mt_go_peer(&call, MT_U64({comm}), {root}, -1);"
		}
		b.paused = "mt_body_unmeasured({comm}, rc);"
		b.failed = "mt_registry_comm_distrust(MT_U64({comm}));"
		bytes, typ := c.collectiveShare()
		switch c.Class {
		case "coll":
			b.after = fmt.Sprintf("mt_body_coll(&call, {comm}, %s, %s, %s);", root, bytes, typ)
		case "icoll":
			b.after = fmt.Sprintf("mt_body_icoll(&call, {comm}, %s, %s, %s, {request});", root, bytes, typ)
		default:
			b.after = fmt.Sprintf("mt_body_coll_init(&call, {comm}, %s, %s, %s, {request});", root, bytes, typ)
			b.paused = borrowing(fmt.Sprintf("mt_body_coll_init_paused(&call, {comm}, %s, %s, %s, {request});", root, bytes, typ)) + " else {\n            mt_body_unmeasured({comm}, rc);\n        }"
		}
	case "local", "type_set_name":
		if c.has("comm") && c.Returns == "int" {
			b.publish = "mt_go_peer(&call, MT_U64({comm}), -1, -1);"
		}
	case "comm_new":
		if !c.has("comm") {
			b.publish = ""
		}
		if strings.HasPrefix(c.Name, "MPI_Comm_dup") {
			b.registry = "MT_NAME(comm_duplicated)({comm}, *{newcomm}, {id});"
		}
	case "io", "iio":
		if c.Class == "io" && !c.has("status") { // the begin of a split collective
			b = body{after: "mt_count_moved(&call, {filecount}, MT_U64({filetype}));"}
		}
		if !c.has("filecount") || !c.has("filetype") {
			b = body{}
			if c.has("request") {
				b.after = "mt_body_request(&call, MT_REQUEST_OTHER, {request});"
			}
		}
	}
	return b
}

func (a *api) emitWrappers() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "/* %s */\n/* Compiled once per ABI: -DMT_ABI_OPENMPI=1 or -DMT_ABI_MPICH=1. */\n#include \"../pmpi/body.h\"\n", notice)
	for i := range a.calls {
		c := &a.calls[i]
		b.WriteByte('\n')
		switch c.Class {
		case "init":
			c.writeInit(&b, "mt_life_init_exit(&MT_NAME(family), rc != MT_SUCCESS);")
		case "finalize":
			c.writeFinalize(&b)
		case "pcontrol":
			c.writePcontrol(&b)
		default:
			c.write(&b)
		}
	}
	return b.Bytes()
}

func (c *call) open(b *bytes.Buffer) {
	ret := abiType(c.Returns)
	fmt.Fprintf(b, "%s MT_NAME(%s)(%s)\n{\n    typedef %s (*real_fn)(%s);\n    struct mt_call call;\n", ret, c.Name, c.params(true), ret, c.params(false))
}

func (c *call) forwardArgs(replace map[string]string) string {
	var list []string
	for i, a := range c.Args {
		if a.variadic() {
			continue
		}
		if r, ok := replace[a.Role]; ok && a.Role != "" {
			list = append(list, r)
			continue
		}
		list = append(list, fmt.Sprintf("a%d", i))
	}
	return strings.Join(list, ", ")
}

// write emits the wrapper of one function.
func (c *call) write(b *bytes.Buffer) {
	p := c.bodyOf()
	c.open(b)
	if p.begin != "" {
		fmt.Fprintf(b, "    %s\n", c.fill(p.begin))
	}
	forward := fmt.Sprintf("return ((real_fn)mt_real_mpi[%s])(%s);", c.argument("id"), c.forwardArgs(nil))
	leave := "mt_leave"
	if c.Class == "quick" || c.Class == "convert" {
		fmt.Fprintf(b, "    if (mt_quick(%s, (uintptr_t)__builtin_return_address(0))) {\n        %s\n    }\n", c.argument("id"), forward)
		leave = "mt_leave_quick"
	}
	if c.Class == "convert" {
		fmt.Fprintf(b, "    if (mt_conversion_of_binding(%s, (uintptr_t)__builtin_return_address(0))) {\n        %s\n    }\n", c.argument("id"), forward)
	}
	fmt.Fprintf(b, "    if (mt_enter(&call, %s, MT_HERE) == MT_FORWARD) {\n        return ((real_fn)call.real)(%s);\n    }\n", c.argument("id"), c.forwardArgs(nil))
	if p.before != "" {
		fmt.Fprintf(b, "    %s\n", c.fill(p.before))
	}
	publish := p.publish
	if publish == "" {
		publish = "mt_go(&call);"
	}
	fmt.Fprintf(b, "    %s\n", c.fill(publish))
	fmt.Fprintf(b, "    %s rc = ((real_fn)call.real)(%s);\n    mt_stop(&call);\n", abiType(c.Returns), c.forwardArgs(p.replace))
	ok := "rc == MT_SUCCESS"
	failed := "rc != MT_SUCCESS"
	if c.Returns != "int" {
		ok, failed = "true", "false"
	}
	if p.registry != "" {
		fmt.Fprintf(b, "    if (%s) {\n        %s\n    }\n", ok, c.fill(p.registry))
	}
	if p.always != "" {
		fmt.Fprintf(b, "    if (call.shard != NULL) {\n        %s\n    }\n", c.fill(p.always))
	}
	if p.after != "" {
		fmt.Fprintf(b, "    if (mt_likely(call.shard != NULL && %s)) {\n        %s\n    }\n", ok, c.fill(p.after))
	}
	if p.failed != "" {
		fmt.Fprintf(b, "    if (mt_unlikely(call.shard != NULL && %s)) {\n        %s\n    }\n", failed, c.fill(p.failed))
	}
	if p.paused != "" {
		fmt.Fprintf(b, "    if (mt_unlikely(call.shard == NULL)) {\n        %s\n    }\n", c.fill(p.paused))
	}
	if strings.Contains(p.before, "array_begin") {
		b.WriteString("    MT_NAME(array_end)(&array);\n")
	}
	fmt.Fprintf(b, "    %s(&call, %s);\n", leave, failed)
	b.WriteString("    return rc;\n}\n")
}

// writeInit emits MPI_Init and MPI_Init_thread: the measurement begins before the call, so that a hang inside it is seen.
func (c *call) writeInit(b *bytes.Buffer, exit string) {
	c.open(b)
	fmt.Fprintf(b, "    bool begun = mt_life_init_enter();\n    if (mt_enter(&call, %s, MT_HERE) == MT_FORWARD) {\n        return ((real_fn)call.real)(%s);\n    }\n    mt_go(&call);\n    int rc = ((real_fn)call.real)(%s);\n    mt_stop(&call);\n    if (begun) {\n        %s\n    }\n    mt_leave(&call, rc != MT_SUCCESS);\n    return rc;\n}\n", c.argument("id"), c.forwardArgs(nil), c.forwardArgs(nil), c.fill(exit))
}

func (c *call) writeFinalize(b *bytes.Buffer) {
	c.open(b)
	fmt.Fprintf(b, "    if (mt_enter(&call, %s, MT_HERE) == MT_FORWARD) {\n        return ((real_fn)call.real)(%s);\n    }\n    mt_life_finalize_enter();\n    mt_go(&call);\n    int rc = ((real_fn)call.real)(%s);\n    mt_stop(&call);\n    mt_leave(&call, rc != MT_SUCCESS);\n    mt_life_finalize_exit(rc != MT_SUCCESS);\n    return rc;\n}\n", c.argument("id"), c.forwardArgs(nil), c.forwardArgs(nil))
}

// writePcontrol emits MPI_Pcontrol. Its variable arguments are for a tool behind
// us: all registers that can carry one are taken and handed on.
func (c *call) writePcontrol(b *bytes.Buffer) {
	const integers, doubles = 5, 8
	var params, args []string
	for i := range integers {
		params = append(params, fmt.Sprintf("long i%d", i))
		args = append(args, fmt.Sprintf("i%d", i))
	}
	for i := range doubles {
		params = append(params, fmt.Sprintf("double d%d", i))
		args = append(args, fmt.Sprintf("d%d", i))
	}
	all := "level, " + strings.Join(args, ", ")
	fmt.Fprintf(b, "int MT_NAME(%s)(int level, %s)\n{\n    typedef int (*real_fn)(int, ...);\n    struct mt_call call;\n    if (mt_enter(&call, %s, MT_HERE) == MT_FORWARD) {\n        return ((real_fn)call.real)(%s);\n    }\n    mt_go(&call);\n    int rc = ((real_fn)call.real)(%s);\n    mt_stop(&call);\n    mt_leave(&call, rc != MT_SUCCESS);\n    mt_life_pcontrol(level);\n    return rc;\n}\n", c.Name, strings.Join(params, ", "), c.argument("id"), all, all)
}
