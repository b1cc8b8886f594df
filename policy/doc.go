// Package policy says what mpitrace does with the messages of a job: which mode,
// which protocols, which limits. A policy comes from a JSON file or from a short
// text (ParseJSON, ParseString), several are laid over each other (Resolve), and
// the result is handed to the ranks as lines that need no parser worth the name
// (Effective.Lines), with a hash that all ranks compare.
//
// All settings are stated in spec/policy.json. Values are kept as text in one
// form: sizes in bytes, several values in the order of the spec with + between
// them. The package has no clock, reads no file, and knows nothing of MPI or of
// segments.
package policy
