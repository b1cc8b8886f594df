package memmon

//go:generate go tool bpf2go -tags linux -target amd64,arm64 -go-package memmon -output-suffix _gen kernel bpf/memmon.bpf.c -- -std=gnu11 -ffreestanding -mcpu=v3 -Wall -Wextra -Werror -I../../c/include
