/* crc32c.c: see crc32c.h. The way is chosen at the first use. */
#include "../include/crc32c.h"

#include <pthread.h>
#include <string.h>
#if defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <immintrin.h>
#endif

/* Eight tables: eight bytes a step (Kounavis and Berry 2005). The polynomial is
 * 0x1edc6f41 with its bits reversed. */
#define MT_CRC_POLYNOMIAL UINT32_C(0x82f63b78)

static uint32_t mt_crc_tables[8][256];

static uint64_t mt_crc_word(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    return word;
}

static uint32_t mt_crc_by_table(uint32_t crc, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    crc = ~crc;
    for (; count >= 8; count -= 8, at += 8) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 |
                              (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
        crc = mt_crc_tables[7][low & 255] ^ mt_crc_tables[6][low >> 8 & 255] ^
              mt_crc_tables[5][low >> 16 & 255] ^ mt_crc_tables[4][low >> 24] ^
              mt_crc_tables[3][at[4]] ^ mt_crc_tables[2][at[5]] ^
              mt_crc_tables[1][at[6]] ^ mt_crc_tables[0][at[7]];
    }
    for (; count > 0; count--, at++) {
        crc = crc >> 8 ^ mt_crc_tables[0][(crc ^ *at) & 255];
    }
    return ~crc;
}

/* ---- by the processor's instruction ----
 *
 * Each step waits for the one before, three cycles on most processors, which can
 * begin one in every cycle: so three blocks that follow each other are gone through at
 * once, and their values put together, as what a register becomes by a block of zeros
 * is a linear map of it (Gopal and others 2011, "Fast CRC computation for iSCSI
 * polynomial using CRC32 instruction"). */

#if defined(__x86_64__)

#define MT_CRC_TARGET __attribute__((target("sse4.2")))
#define MT_CRC_EIGHT(crc, word) \
    ((uint32_t)__builtin_ia32_crc32di((crc), (word)))
#define MT_CRC_ONE(crc, byte) __builtin_ia32_crc32qi((crc), (byte))

static bool mt_crc_can(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") != 0;
}

#elif defined(__aarch64__)

#define MT_CRC_TARGET __attribute__((target("+crc")))
#define MT_CRC_EIGHT(crc, word) __crc32cd((crc), (word))
#define MT_CRC_ONE(crc, byte) __crc32cb((crc), (byte))

enum { MT_HWCAP_CRC32 = 1 << 7 };

static bool mt_crc_can(void)
{
    return (getauxval(AT_HWCAP) & MT_HWCAP_CRC32) != 0;
}

#endif

#if defined(MT_CRC_TARGET)

/* Blocks of two sizes, and what a register becomes by so many zeros, for each of its
 * bytes. */
enum { MT_CRC_BLOCKS = 2 };
static const size_t mt_crc_block[MT_CRC_BLOCKS] = {1024, 128};
static uint32_t mt_crc_zeros[MT_CRC_BLOCKS][4][256];

static void mt_crc_fill_zeros(void)
{
    for (int size = 0; size < MT_CRC_BLOCKS; size++) {
        uint32_t(*zeros)[256] = mt_crc_zeros[size];
        for (int bit = 0; bit < 32; bit++) {
            uint32_t crc = UINT32_C(1) << bit;
            for (size_t i = 0; i < mt_crc_block[size]; i++) {
                crc = crc >> 8 ^ mt_crc_tables[0][crc & 255];
            }
            zeros[bit / 8][1 << bit % 8] = crc;
        }
        for (int byte = 0; byte < 4; byte++) {
            for (uint32_t i = 1; i < 256; i++) { /* from its lowest bit and the rest */
                zeros[byte][i] = zeros[byte][i & (i - 1)] ^ zeros[byte][i & -i];
            }
        }
    }
}

static uint32_t mt_crc_past_zeros(uint32_t (*zeros)[256], uint32_t crc)
{
    return zeros[0][crc & 255] ^ zeros[1][crc >> 8 & 255] ^
           zeros[2][crc >> 16 & 255] ^ zeros[3][crc >> 24];
}

MT_CRC_TARGET static uint32_t mt_crc_instruction(uint32_t crc, const void *bytes,
                                                 size_t count)
{
    const uint8_t *at = bytes;
    crc = ~crc;
    for (int size = 0; size < MT_CRC_BLOCKS; size++) {
        const size_t block = mt_crc_block[size];
        for (; count >= 3 * block; count -= 3 * block, at += 3 * block) {
            uint32_t second = 0, third = 0;
            for (size_t i = 0; i < block; i += 8) {
                crc = MT_CRC_EIGHT(crc, mt_crc_word(at + i));
                second = MT_CRC_EIGHT(second, mt_crc_word(at + block + i));
                third = MT_CRC_EIGHT(third, mt_crc_word(at + 2 * block + i));
            }
            second ^= mt_crc_past_zeros(mt_crc_zeros[size], crc);
            crc = third ^ mt_crc_past_zeros(mt_crc_zeros[size], second);
        }
    }
    for (; count >= 8; count -= 8, at += 8) {
        crc = MT_CRC_EIGHT(crc, mt_crc_word(at));
    }
    for (; count > 0; count--, at++) {
        crc = MT_CRC_ONE(crc, *at);
    }
    return ~crc;
}

#else

static bool mt_crc_can(void)
{
    return false;
}

#define mt_crc_fill_zeros() ((void)0)
#define mt_crc_instruction mt_crc_by_table

#endif

/* ---- by folding ----
 *
 * Sixteen blocks of 16 bytes in four registers: what lies so many bits further on is
 * added to each, multiplied by x to that power, which leaves the remainder as it is;
 * of the last ones it is taken as above (Gopal and others 2009, "Fast CRC Computation
 * for Generic Polynomials Using PCLMULQDQ Instruction"). */

#if defined(__x86_64__)

#define MT_CRC_FOLD_TARGET \
    __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))

enum { MT_CRC_REGISTERS = 4, MT_CRC_FOLD = MT_CRC_REGISTERS * 64 };
static uint64_t mt_crc_shift[2]; /* of the first half of 16 bytes, of the second */

static bool mt_crc_folds(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") != 0 &&
           __builtin_cpu_supports("vpclmulqdq") != 0 && mt_crc_can();
}

/* x to this power, as a register has it: reflected. */
static uint32_t mt_crc_power(unsigned power)
{
    uint32_t crc = UINT32_C(1) << 31;
    for (unsigned i = 0; i < power; i++) {
        crc = crc >> 1 ^ ((crc & 1) != 0 ? MT_CRC_POLYNOMIAL : 0);
    }
    return crc;
}

/* A product of two reflected factors is one bit too far on, hence less 1. */
static void mt_crc_fill_shift(void)
{
    mt_crc_shift[0] = (uint64_t)mt_crc_power(8 * MT_CRC_FOLD + 64 - 1) << 32;
    mt_crc_shift[1] = (uint64_t)mt_crc_power(8 * MT_CRC_FOLD - 1) << 32;
}

MT_CRC_FOLD_TARGET static uint32_t mt_crc_folding(uint32_t crc, const void *bytes,
                                                  size_t count)
{
    if (count < 2 * MT_CRC_FOLD) {
        return mt_crc_instruction(crc, bytes, count);
    }
    const char *at = bytes;
    __m128i both = _mm_set_epi64x((long long)mt_crc_shift[1],
                                  (long long)mt_crc_shift[0]);
    __m512i shift = _mm512_broadcast_i32x4(both);
    __m512i r[MT_CRC_REGISTERS];
    char last[MT_CRC_FOLD];
    for (int i = 0; i < MT_CRC_REGISTERS; i++) {
        r[i] = _mm512_loadu_si512(at + 64 * i);
    }
    __m512i start = _mm512_inserti32x4(_mm512_setzero_si512(),
                                       _mm_cvtsi32_si128((int)~crc), 0);
    r[0] = _mm512_xor_si512(r[0], start);
    at += MT_CRC_FOLD;
    count -= MT_CRC_FOLD;
    for (; count >= MT_CRC_FOLD; count -= MT_CRC_FOLD, at += MT_CRC_FOLD) {
#pragma GCC unroll 4
        for (int i = 0; i < MT_CRC_REGISTERS; i++) {
            __m512i first = _mm512_clmulepi64_epi128(r[i], shift, 0x00);
            __m512i second = _mm512_clmulepi64_epi128(r[i], shift, 0x11);
            r[i] = _mm512_xor_si512(_mm512_xor_si512(first, second),
                                    _mm512_loadu_si512(at + 64 * i));
        }
    }
    for (int i = 0; i < MT_CRC_REGISTERS; i++) {
        _mm512_storeu_si512(last + 64 * i, r[i]);
    }
    /* else all SSE instructions of the program take longer from here on: one computed
     * at half its speed, for gcc 12 had left this out */
    _mm256_zeroupper();
    crc = mt_crc_instruction(UINT32_MAX, last, sizeof(last)); /* from 0 */
    return mt_crc_instruction(crc, at, count);
}

#else

static bool mt_crc_folds(void)
{
    return false;
}

#define mt_crc_fill_shift() ((void)0)
#define mt_crc_folding mt_crc_instruction

#endif

static uint32_t mt_crc_first(uint32_t crc, const void *bytes, size_t count);

static uint32_t (*mt_crc_way)(uint32_t, const void *, size_t) = mt_crc_first;

static void mt_crc_fill(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? MT_CRC_POLYNOMIAL : 0);
        }
        mt_crc_tables[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int t = 1; t < 8; t++) {
            uint32_t before = mt_crc_tables[t - 1][i];
            mt_crc_tables[t][i] = before >> 8 ^ mt_crc_tables[0][before & 255];
        }
    }
    mt_crc_fill_zeros();
    mt_crc_fill_shift();
}

static void mt_crc_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, mt_crc_fill);
}

static uint32_t mt_crc_first(uint32_t crc, const void *bytes, size_t count)
{
    mt_crc_start();
    /* pairs with mt_crc32c: the tables are there before the way to them is */
    __atomic_store_n(&mt_crc_way,
                     mt_crc_folds() ? mt_crc_folding
                     : mt_crc_can() ? mt_crc_instruction
                                    : mt_crc_by_table,
                     __ATOMIC_RELEASE);
    return mt_crc32c(crc, bytes, count);
}

bool mt_crc32c_by(enum mt_crc_kind kind, uint32_t *crc, const void *bytes,
                  size_t count)
{
    mt_crc_start();
    switch (kind) {
    case MT_CRC_BY_TABLE:
        *crc = mt_crc_by_table(*crc, bytes, count);
        return true;
    case MT_CRC_BY_INSTRUCTION:
        if (!mt_crc_can()) {
            return false;
        }
        *crc = mt_crc_instruction(*crc, bytes, count);
        return true;
    default:
        if (!mt_crc_folds()) {
            return false;
        }
        *crc = mt_crc_folding(*crc, bytes, count);
        return true;
    }
}

uint32_t mt_crc32c(uint32_t crc, const void *bytes, size_t count)
{
    return __atomic_load_n(&mt_crc_way, __ATOMIC_ACQUIRE)(crc, bytes, count);
}
