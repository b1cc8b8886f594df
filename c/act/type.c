/* type.c: datatypes as we know them, by handle: described when first met, by
 * flatten.c, and forgotten when the application frees them; what is under way
 * keeps the description. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "act.h"

/* A type that may be used in a message: the library's own check, which sends
 * nothing and calls no error handler of the application. */
static bool usable(MT_Datatype handle)
{
    char somewhere = 0;
    return handle != MT_DATATYPE_NULL &&
           MT_PMPI(Send)(&somewhere, 1, handle, MT_PROC_NULL, 0,
                         mt_act.self) == MT_SUCCESS;
}

/* Calls of this thread in which types may end, and with them attributes, whose
 * callbacks may still use them. What is met there is not kept: its handle may be
 * another type's soon. */
static __thread int mt_ending;
/* The type that it is freeing, which is in no table any more. NULL: it was never
 * met, or nothing is being freed. */
static __thread struct mt_act_type *mt_freeing;
static __thread MT_Datatype mt_freeing_handle;

/* MPI_Pack of MPICH refuses MPI_BOTTOM, which is NULL. So the type that we give it
 * begins before the buffer, and the buffer as much behind where it is. */
enum { MT_ACT_SHIFT = 64 };

static void *shifted(const struct mt_act_type *type, const void *buffer)
{
    return (void *)((uintptr_t)buffer + (uintptr_t)type->shift);
}

/* Descriptions that are no more. Another thread may just have found one of them in
 * the table, so they are used for other types, and never freed. */
static struct mt_act_type *mt_spare; /* under mt_act.lock */

static struct mt_act_type *spare_get(void)
{
    mt_act_lock();
    struct mt_act_type *type = mt_spare;
    if (type != NULL) {
        mt_spare = type->next;
    }
    mt_act_unlock();
    return type;
}

/* NULL: no memory. */
static struct mt_act_type *type_get(MT_Datatype handle, bool named)
{
    struct mt_act_type *type = named ? NULL : spare_get();
    if (type == NULL) {
        type = calloc(1, sizeof(*type));
        if (type == NULL) {
            return NULL;
        }
        type->named = named;
    }
    __atomic_store_n(&type->handle, handle, __ATOMIC_RELAXED);
    return type;
}

static void type_put(struct mt_act_type *type)
{
    free(type->blocks);
    if (type->named) { /* was never in the table */
        free(type);
        return;
    }
    type->blocks = NULL;
    type->shift = 0;
    mt_act_lock();
    type->next = mt_spare;
    mt_spare = type;
    mt_act_unlock();
}

void mt_act_type_free(struct mt_act_type *type)
{
    if (type->shift != 0) {
        mt_ending++;
        MT_PMPI(Type_free)(&type->native);
        mt_ending--;
    }
    type_put(type);
}

/* The copy carries no attributes, so nobody's copy function is called. Of a type
 * that ends there can be none. */
static bool keep_native(MT_Datatype handle, struct mt_act_type *type)
{
    int one = 1;
    MT_Aint before = -MT_ACT_SHIFT;
    if (type->shape != MT_ACT_NATIVE) {
        return true;
    }
    if (mt_ending > 0) {
        type->native = handle;
        return true;
    }
    if (MT_PMPI(Type_create_hindexed)(1, &one, &before, handle,
                                      &type->native) != MT_SUCCESS) {
        return false;
    }
    type->shift = MT_ACT_SHIFT;
    return MT_PMPI(Type_commit)(&type->native) == MT_SUCCESS;
}

MT_COLD static struct mt_act_type *type_meet(MT_Datatype handle)
{
    if (mt_freeing != NULL && handle == mt_freeing_handle) {
        mt_act_type_use(mt_freeing);
        return mt_freeing;
    }
    if (!usable(handle)) {
        return NULL;
    }
    struct mt_act_type *type = type_get(
        handle, mt_ending == 0 && mt_act_type_is_named(handle));
    if (type == NULL) {
        return NULL;
    }
    mt_act_flatten(handle, mt_ending > 0, type);
    if (!keep_native(handle, type)) {
        mt_act_type_free(type);
        return NULL;
    }
    /* pairs with found_take */
    __atomic_store_n(&type->users, 1, __ATOMIC_RELEASE);
    if (mt_ending > 0) {
        return type;
    }
    mt_act_lock();
    struct mt_act_type *other =
        mt_act_table_get(&mt_act.types, MT_U64(handle));
    bool put = other == NULL &&
               mt_act_table_put(&mt_act.types, MT_U64(handle), type);
    if (other != NULL) {
        mt_act_type_use(other); /* another thread was faster */
    } else if (put) {
        mt_act_type_use(type);
    }
    mt_act_unlock();
    if (!put && type->named) {
        mt_act_type_free(type);
    } else if (!put) {
        mt_act_type_put(type);
    }
    return put ? type : other;
}

/* Whether what was found in the table is still this type's. MPICH has one handle for a
 * type and for what MPI_Type_get_contents says of it, so a thread may free the latter
 * while others send with the former. */
static bool found_take(struct mt_act_type *type, MT_Datatype handle)
{
    if (type->named) {
        return true;
    }
    uint32_t users = __atomic_load_n(&type->users, __ATOMIC_RELAXED);
    do {
        if (users == 0) {
            return false;
        }
    } while (!__atomic_compare_exchange_n(&type->users, &users, users + 1, true,
                                          __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
    if (mt_likely(__atomic_load_n(&type->handle, __ATOMIC_RELAXED) == handle)) {
        return true;
    }
    mt_act_type_put(type);
    return false;
}

struct mt_act_type *mt_act_type_find(MT_Datatype handle)
{
    struct mt_act_type *type = mt_act_table_get(&mt_act.types, MT_U64(handle));
    if (mt_unlikely(type == NULL || !found_take(type, handle))) {
        return type_meet(handle);
    }
    return type;
}

static char *gather(const struct mt_act_type *type, const char *element,
                    char *out)
{
    for (uint32_t b = 0; b < type->layout.block_count; b++) {
        const struct mt_block *block = &type->blocks[b];
        memcpy(out, element + block->offset, block->bytes);
        out += block->bytes;
    }
    return out;
}

/* By a message to oneself, one at a time: mt_act.self knows no threads apart. */
static bool pack_by_message(const struct mt_act_type *type, const char *buffer,
                            int count, char *packed)
{
    static pthread_mutex_t sending = PTHREAD_MUTEX_INITIALIZER;
    int bytes = (int)((uint64_t)count * type->layout.size);
    pthread_mutex_lock(&sending);
    int rc = MT_PMPI(Sendrecv)(shifted(type, buffer), count, type->native, 0, 0,
                               packed, bytes, MT_BYTE, 0, 0, mt_act.self,
                               MT_STATUS_IGNORE);
    pthread_mutex_unlock(&sending);
    return rc == MT_SUCCESS;
}

/* At most INT_MAX bytes at a time, since positions are ints. MPI_Pack of MPICH 4.0 leaves
 * out the end of some types, as dense darrays, while many types are there, and says so
 * in the position only; what it sends is right. */
static bool pack_native(const struct mt_act_type *type, const char *buffer,
                        int64_t count, char *packed)
{
    uint64_t size = type->layout.size;
    int64_t most = size > 0 ? (int64_t)(INT32_MAX / size) : 1;
    while (count > 0 && size > 0) {
        int n = (int)(count < most ? count : most), position = 0;
        int bytes = (int)((uint64_t)n * size);
        if (n == 0 ||
            MT_PMPI(Pack)(shifted(type, buffer), n, type->native, packed, bytes,
                          &position, mt_act.self) != MT_SUCCESS ||
            (position != bytes && !pack_by_message(type, buffer, n, packed))) {
            return false;
        }
        buffer += n * type->layout.extent;
        packed += (uint64_t)n * size;
        count -= n;
    }
    return true;
}

bool mt_act_type_pack(const struct mt_act_type *type, const void *buffer,
                      int64_t count, void *packed)
{
    const char *from = buffer;
    char *out = packed;
    if (type->shape == MT_ACT_NATIVE) {
        return pack_native(type, from, count, out);
    }
    if (type->shape == MT_ACT_PLAIN) {
        memcpy(out, from + type->offset, (uint64_t)count * type->layout.size);
        return true;
    }
    for (int64_t i = 0; i < count; i++) {
        out = gather(type, from + i * type->layout.extent, out);
    }
    return true;
}

/* The first bytes of one element; the rest of it keeps its value. */
static bool unpack_part(const struct mt_act_type *type, const char *packed,
                        uint64_t bytes, char *element)
{
    int size = (int)type->layout.size, position = 0;
    char *whole = malloc(type->layout.size);
    bool done = whole != NULL && pack_native(type, element, 1, whole);
    if (done) {
        memcpy(whole, packed, bytes);
        done = MT_PMPI(Unpack)(whole, size, &position, shifted(type, element),
                               1, type->native, mt_act.self) == MT_SUCCESS;
    }
    free(whole);
    return done;
}

bool mt_act_type_unpack(const struct mt_act_type *type, const void *packed,
                        uint64_t bytes, void *buffer)
{
    uint64_t size = type->layout.size;
    uint64_t most = size > 0 && size <= INT32_MAX ? INT32_MAX / size : 0;
    const char *from = packed;
    char *to = buffer;
    if (bytes == 0) {
        return true;
    }
    if (most == 0) {
        return false;
    }
    while (bytes >= size) {
        uint64_t n = bytes / size < most ? bytes / size : most;
        int position = 0;
        if (MT_PMPI(Unpack)(from, (int)(n * size), &position,
                            shifted(type, to), (int)n, type->native,
                            mt_act.self) != MT_SUCCESS) {
            return false;
        }
        from += n * size;
        to += (int64_t)n * type->layout.extent;
        bytes -= n * size;
    }
    return bytes == 0 || unpack_part(type, from, bytes, to);
}

static int Type_free(MT_Datatype *handle)
{
    if (handle == NULL) {
        return MT_PMPI(Type_free)(handle);
    }
    mt_act_lock();
    struct mt_act_type *type = mt_act_table_get(&mt_act.types, MT_U64(*handle));
    if (type != NULL && !type->named) {
        mt_act_table_put(&mt_act.types, MT_U64(*handle), NULL);
    }
    mt_act_unlock();
    struct mt_act_type *outer = mt_freeing;
    MT_Datatype outer_handle = mt_freeing_handle;
    mt_freeing = type;
    mt_freeing_handle = *handle;
    mt_ending++;
    int rc = MT_PMPI(Type_free)(handle);
    mt_ending--;
    mt_freeing = outer;
    mt_freeing_handle = outer_handle;
    if (type != NULL) {
        mt_act_type_put(type);
    }
    return rc;
}

void mt_act_type_functions(struct mt_act_functions *functions)
{
    MT_ACT_TAKE(functions, Type_free);
}
