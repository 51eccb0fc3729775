/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/protocol/frames.h"

#include <string.h>

#include "base/util.h"

#define HANDLE_MAGIC         0x31484c5544524f54ull /* arbitrary; tells our handles from other plugins' */
#define HANDLE_COOKIE_OFFSET (DT_HANDLE_BYTES - 8)

/* ------------------------------------------------------------------------------------------------------------
 * Addresses
 */
static void address_encode(const struct dt_address *address, struct dt_writer *w)
{
    dt_put_uint(w, address->family, 2);
    dt_put_uint(w, address->port, 2);
    dt_put_bytes(w, address->ip, 16);
}

/* Whether it can be dialed. */
static bool address_decode(struct dt_reader *r, struct dt_address *address)
{
    uint64_t family = dt_get_uint(r, 2);

    address->family = (uint8_t)family;
    address->port = (uint16_t)dt_get_uint(r, 2);
    dt_get_bytes(r, address->ip, 16);
    return (family == DT_ADDRESS_IPV4 || family == DT_ADDRESS_IPV6) && address->port != 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * The handle
 */
void dt_handle_encode(const struct dt_handle *handle, uint8_t bytes[DT_HANDLE_BYTES])
{
    struct dt_writer w = {bytes, DT_HANDLE_BYTES, 0, false};

    memset(bytes, 0, DT_HANDLE_BYTES);
    dt_put_uint(&w, HANDLE_MAGIC, 8);
    dt_put_uint(&w, handle->version_min, 2);
    dt_put_uint(&w, handle->version_max, 2);
    address_encode(&handle->address, &w);
    dt_put_uint(&w, handle->listen_id, 8);
    dt_put_uint(&w, handle->nonce, 8);
    dt_put_uint(&w, handle->address.process, 8);
}

enum dt_status dt_handle_decode(const uint8_t bytes[DT_HANDLE_BYTES], struct dt_handle *handle)
{
    struct dt_reader r = {bytes, DT_HANDLE_BYTES, 0, false};
    uint64_t magic = dt_get_uint(&r, 8);
    bool is_valid;

    memset(handle, 0, sizeof *handle);
    handle->version_min = (uint16_t)dt_get_uint(&r, 2);
    handle->version_max = (uint16_t)dt_get_uint(&r, 2);
    is_valid = address_decode(&r, &handle->address);
    handle->listen_id = dt_get_uint(&r, 8);
    handle->nonce = dt_get_uint(&r, 8);
    handle->address.process = dt_get_uint(&r, 8); /* 0 of a process without carriers */
    if (magic != HANDLE_MAGIC || !is_valid || handle->version_min > handle->version_max)
        return DT_PROTOCOL;
    return DT_OK;
}

uint64_t dt_handle_cookie(const uint8_t bytes[DT_HANDLE_BYTES])
{
    struct dt_reader r = {bytes + HANDLE_COOKIE_OFFSET, 8, 0, false};

    return dt_get_uint(&r, 8);
}

void dt_handle_set_cookie(uint8_t bytes[DT_HANDLE_BYTES], uint64_t cookie)
{
    struct dt_writer w = {bytes + HANDLE_COOKIE_OFFSET, 8, 0, false};

    dt_put_uint(&w, cookie, 8);
}

/* ------------------------------------------------------------------------------------------------------------
 * Frames
 */
enum dt_status dt_frame_header_decode(const uint8_t bytes[DT_FRAME_HEADER_BYTES],
                                      struct dt_frame_header *header)
{
    struct dt_reader r = {bytes, DT_FRAME_HEADER_BYTES, 0, false};
    uint64_t magic = dt_get_uint(&r, 4);

    header->type = (uint16_t)dt_get_uint(&r, 2);
    header->body_bytes = (uint16_t)dt_get_uint(&r, 2);
    return magic == DT_FRAME_MAGIC && header->body_bytes <= DT_FRAME_BODY_MAX ? DT_OK : DT_PROTOCOL;
}

/* Starts a frame; the length is filled in by frame_end(). Returns where the frame begins. */
static size_t frame_begin(struct dt_writer *w, enum dt_frame_type type)
{
    size_t begin = w->used;

    dt_put_uint(w, DT_FRAME_MAGIC, 4);
    dt_put_uint(w, type, 2);
    dt_put_uint(w, 0, 2);
    return begin;
}

/* A frame that did not fit leaves nothing behind. */
static void frame_end(struct dt_writer *w, size_t begin)
{
    size_t body_bytes = w->used - begin - DT_FRAME_HEADER_BYTES;

    if (w->is_full || body_bytes > DT_FRAME_BODY_MAX) {
        w->is_full = true;
        w->used = begin;
        return;
    }
    w->bytes[begin + 6] = (uint8_t)body_bytes;
    w->bytes[begin + 7] = (uint8_t)(body_bytes >> 8);
}

/* What every decoder ends with: all bytes were there, none is left. */
static enum dt_status finish(const struct dt_reader *r, bool is_valid)
{
    return is_valid && !r->is_short && r->used == r->size ? DT_OK : DT_PROTOCOL;
}

/* ------------------------------------------------------------------------------------------------------------
 * Terms
 */
struct dt_terms dt_terms_agree(const struct dt_terms *a, const struct dt_terms *b)
{
    struct dt_terms terms = {
        .paths = (uint32_t)dt_min_u64(a->paths, b->paths),
        .qps = (uint32_t)dt_min_u64(a->qps, b->qps),
        .slots = (uint32_t)dt_min_u64(a->slots, b->slots),
        .chunk_bytes = (uint32_t)dt_min_u64(a->chunk_bytes, b->chunk_bytes),
    };

    return terms;
}

static void terms_encode(const struct dt_terms *terms, struct dt_writer *w)
{
    dt_put_uint(w, terms->paths, 1);
    dt_put_uint(w, terms->qps, 1);
    dt_put_uint(w, terms->slots, 2);
    dt_put_uint(w, terms->chunk_bytes, 4);
}

static bool terms_decode(struct dt_reader *r, struct dt_terms *terms)
{
    terms->paths = (uint32_t)dt_get_uint(r, 1);
    terms->qps = (uint32_t)dt_get_uint(r, 1);
    terms->slots = (uint32_t)dt_get_uint(r, 2);
    terms->chunk_bytes = (uint32_t)dt_get_uint(r, 4);
    return terms->paths >= 1 && terms->paths <= DT_PATHS_MAX && terms->qps >= 1 && terms->qps <= DT_QPS_MAX &&
           terms->slots >= DT_SLOTS_MIN && terms->slots <= DT_SLOTS_MAX && dt_is_power_of_two(terms->slots) &&
           terms->chunk_bytes >= DT_CHUNK_BYTES_MIN && terms->chunk_bytes % DT_CUT_BYTES == 0 &&
           terms->chunk_bytes <= DT_MESSAGE_BYTES_MAX;
}

/* ------------------------------------------------------------------------------------------------------------
 * Backups
 */
static void backups_encode(const struct dt_backup_offer *offer, struct dt_writer *w)
{
    dt_put_uint(w, offer->is_chosen, 1);
    dt_put_uint(w, offer->count, 1);
    for (uint32_t i = 0; i < offer->count; i++) {
        dt_put_uint(w, offer->device[i].rail, 2);
        dt_put_uint(w, offer->device[i].is_near, 1);
    }
}

static bool backups_decode(struct dt_reader *r, struct dt_backup_offer *offer)
{
    uint64_t is_chosen = dt_get_uint(r, 1);
    bool is_valid = is_chosen <= 1;

    offer->is_chosen = is_chosen == 1;
    offer->count = (uint32_t)dt_get_uint(r, 1);
    if (offer->count < 1 || offer->count > DT_BACKUPS_MAX)
        return false;
    for (uint32_t i = 0; i < offer->count; i++) {
        uint64_t is_near;

        offer->device[i].rail = (uint32_t)dt_get_uint(r, 2);
        is_near = dt_get_uint(r, 1);
        offer->device[i].is_near = is_near == 1;
        is_valid &= is_near <= 1;
    }
    return is_valid;
}

static void pairs_encode(const struct dt_backup_pair *pair, uint32_t count, struct dt_writer *w)
{
    for (uint32_t p = 0; p < count; p++) {
        dt_put_uint(w, pair[p].sender, 1);
        dt_put_uint(w, pair[p].receiver, 1);
        dt_put_uint(w, pair[p].kind, 1);
    }
}

static bool pairs_decode(struct dt_reader *r, uint32_t count, struct dt_backup_pair *pair)
{
    bool is_valid = true;

    for (uint32_t p = 0; p < count; p++) {
        pair[p].sender = (uint32_t)dt_get_uint(r, 1);
        pair[p].receiver = (uint32_t)dt_get_uint(r, 1);
        pair[p].kind = (uint32_t)dt_get_uint(r, 1);
        is_valid &= pair[p].sender < DT_BACKUPS_MAX && pair[p].receiver < DT_BACKUPS_MAX &&
                    pair[p].kind < DT_BACKUP_KIND_COUNT;
    }
    return is_valid;
}

/* ------------------------------------------------------------------------------------------------------------
 * Messages of the set-up
 */
void dt_hello_encode(const struct dt_hello *hello, struct dt_writer *w)
{
    size_t begin = frame_begin(w, DT_FRAME_HELLO);

    dt_put_uint(w, hello->version_min, 2);
    dt_put_uint(w, hello->version_max, 2);
    dt_put_uint(w, hello->listen_id, 8);
    dt_put_uint(w, hello->nonce, 8);
    dt_put_uint(w, hello->connection_id, 8);
    terms_encode(&hello->wanted, w);
    dt_put_uint(w, hello->pid, 4);
    dt_put_text(w, hello->host);
    dt_put_text(w, hello->device);
    address_encode(&hello->listener, w);
    backups_encode(&hello->devices, w);
    dt_put_uint(w, hello->spread, 1);
    frame_end(w, begin);
}

enum dt_status dt_hello_decode(const uint8_t *body, size_t bytes, struct dt_hello *hello)
{
    struct dt_reader r = {body, bytes, 0, false};
    uint64_t spread;
    bool is_valid;

    memset(hello, 0, sizeof *hello);
    hello->version_min = (uint16_t)dt_get_uint(&r, 2);
    hello->version_max = (uint16_t)dt_get_uint(&r, 2);
    hello->listen_id = dt_get_uint(&r, 8);
    hello->nonce = dt_get_uint(&r, 8);
    hello->connection_id = dt_get_uint(&r, 8);
    is_valid = terms_decode(&r, &hello->wanted);
    hello->pid = (uint32_t)dt_get_uint(&r, 4);
    dt_get_text(&r, hello->host, sizeof hello->host);
    dt_get_text(&r, hello->device, sizeof hello->device);
    is_valid &= address_decode(&r, &hello->listener) || hello->listener.family == DT_ADDRESS_NONE;
    is_valid = backups_decode(&r, &hello->devices) && is_valid;
    is_valid &= hello->version_min <= hello->version_max;
    if (hello->version_max < DT_PROTOCOL_VERSION_MIN || hello->version_min > DT_PROTOCOL_VERSION_MAX)
        return is_valid && !r.is_short ? DT_OK : DT_PROTOCOL;
    spread = dt_get_uint(&r, 1);
    hello->spread = spread == DT_SPREAD_TURNS ? DT_SPREAD_TURNS : DT_SPREAD_SPLIT;
    return finish(&r, is_valid && spread < DT_SPREAD_COUNT);
}

void dt_answer_encode(const struct dt_answer *answer, struct dt_writer *w)
{
    size_t begin = frame_begin(w, DT_FRAME_ANSWER);

    dt_put_uint(w, answer->version, 2);
    terms_encode(&answer->agreed, w);
    dt_put_uint(w, answer->pid, 4);
    dt_put_text(w, answer->host);
    dt_put_text(w, answer->device);
    pairs_encode(answer->path, answer->agreed.paths, w);
    frame_end(w, begin);
}

enum dt_status dt_answer_decode(const uint8_t *body, size_t bytes, struct dt_answer *answer)
{
    struct dt_reader r = {body, bytes, 0, false};
    bool is_valid;

    memset(answer, 0, sizeof *answer);
    answer->version = (uint16_t)dt_get_uint(&r, 2);
    is_valid = terms_decode(&r, &answer->agreed);
    answer->pid = (uint32_t)dt_get_uint(&r, 4);
    dt_get_text(&r, answer->host, sizeof answer->host);
    dt_get_text(&r, answer->device, sizeof answer->device);
    return finish(&r, is_valid && pairs_decode(&r, answer->agreed.paths, answer->path));
}

void dt_reject_encode(const struct dt_reject *reject, struct dt_writer *w)
{
    size_t begin = frame_begin(w, DT_FRAME_REJECT);

    dt_put_text(w, reject->reason);
    frame_end(w, begin);
}

enum dt_status dt_reject_decode(const uint8_t *body, size_t bytes, struct dt_reject *reject)
{
    struct dt_reader r = {body, bytes, 0, false};

    dt_get_text(&r, reject->reason, sizeof reject->reason);
    return finish(&r, true);
}

/* ------------------------------------------------------------------------------------------------------------
 * Paths
 */
static void path_encode(const struct dt_path_offer *path, uint32_t qps, struct dt_writer *w)
{
    bool has_ece = path->is_usable && path->ece.options && dt_offer_has_ece_room(path->device, qps);

    dt_put_uint(w, (uint64_t)path->is_usable + has_ece, 1);
    if (!path->is_usable)
        return;
    dt_put_text(w, path->device);
    dt_put_bytes(w, path->probe.gid, 16);
    dt_put_uint(w, path->probe.lid, 4);
    dt_put_uint(w, path->probe.mtu_bytes, 4);
    dt_put_uint(w, path->probe.link_layer, 1);
    dt_put_uint(w, path->probe.qpn, 4);
    dt_put_uint(w, path->probe.psn, 4);
    for (uint32_t q = 0; q < qps; q++) {
        dt_put_uint(w, path->qp[q].qpn, 4);
        dt_put_uint(w, path->qp[q].psn, 4);
    }
    dt_put_uint(w, path->control_addr, 8);
    dt_put_uint(w, path->control_rkey, 4);
    dt_put_uint(w, path->generation, 4);
    dt_put_uint(w, path->keys_since, 8);
    if (has_ece) {
        dt_put_uint(w, path->ece.vendor_id, 4);
        dt_put_uint(w, path->ece.options, 4);
    }
}

static bool numbers_decode(struct dt_reader *r, uint32_t *qpn, uint32_t *psn)
{
    *qpn = (uint32_t)dt_get_uint(r, 4);
    *psn = (uint32_t)dt_get_uint(r, 4);
    return *qpn < 1u << 24 && *psn < 1u << 24;
}

static bool path_decode(struct dt_reader *r, uint32_t qps, struct dt_path_offer *path)
{
    struct dt_qp_address *probe = &path->probe;
    uint64_t is_usable = dt_get_uint(r, 1);
    bool is_valid = is_usable <= 2;

    path->is_usable = is_usable > 0;
    if (!path->is_usable)
        return is_valid;
    dt_get_text(r, path->device, sizeof path->device);
    dt_get_bytes(r, probe->gid, 16);
    probe->lid = (uint32_t)dt_get_uint(r, 4);
    probe->mtu_bytes = (uint32_t)dt_get_uint(r, 4);
    probe->link_layer = (uint32_t)dt_get_uint(r, 1);
    is_valid &= probe->lid < 1u << 16 && dt_is_power_of_two(probe->mtu_bytes) && probe->mtu_bytes >= 256 &&
                probe->mtu_bytes <= 4096 && probe->link_layer <= DT_LINK_ETHERNET;
    is_valid &= numbers_decode(r, &probe->qpn, &probe->psn);
    for (uint32_t q = 0; q < qps; q++)
        is_valid &= numbers_decode(r, &path->qp[q].qpn, &path->qp[q].psn);
    path->control_addr = dt_get_uint(r, 8);
    path->control_rkey = (uint32_t)dt_get_uint(r, 4);
    path->generation = (uint32_t)dt_get_uint(r, 4);
    path->keys_since = dt_get_uint(r, 8);
    if (is_usable == 2) {
        path->ece.vendor_id = (uint32_t)dt_get_uint(r, 4);
        path->ece.options = (uint32_t)dt_get_uint(r, 4);
    }
    return is_valid;
}

void dt_paths_encode(const struct dt_paths_offer *offer, const struct dt_terms *terms, struct dt_writer *w)
{
    size_t begin = frame_begin(w, DT_FRAME_PATHS);

    for (uint32_t p = 0; p < terms->paths; p++)
        path_encode(&offer->path[p], terms->qps, w);
    frame_end(w, begin);
}

enum dt_status dt_paths_decode(const uint8_t *body, size_t bytes, const struct dt_terms *terms,
                               struct dt_paths_offer *offer)
{
    struct dt_reader r = {body, bytes, 0, false};
    bool is_valid = true;

    memset(offer, 0, sizeof *offer);
    for (uint32_t p = 0; p < terms->paths; p++)
        is_valid &= path_decode(&r, terms->qps, &offer->path[p]);
    return finish(&r, is_valid);
}

void dt_ready_encode(const struct dt_ready *ready, struct dt_writer *w)
{
    size_t begin = frame_begin(w, DT_FRAME_READY);

    dt_put_uint(w, ready->path_mask, 4);
    frame_end(w, begin);
}

enum dt_status dt_ready_decode(const uint8_t *body, size_t bytes, const struct dt_terms *terms,
                               struct dt_ready *ready)
{
    struct dt_reader r = {body, bytes, 0, false};

    ready->path_mask = (uint32_t)dt_get_uint(&r, 4);
    return finish(&r, ready->path_mask != 0 && ready->path_mask < 1u << terms->paths);
}

void dt_close_encode(const struct dt_close *close, struct dt_writer *w)
{
    size_t begin = frame_begin(w, DT_FRAME_CLOSE);

    dt_put_uint(w, close->sequence, 8);
    frame_end(w, begin);
}

enum dt_status dt_close_decode(const uint8_t *body, size_t bytes, struct dt_close *close)
{
    struct dt_reader r = {body, bytes, 0, false};

    close->sequence = dt_get_uint(&r, 8);
    return finish(&r, true);
}

void dt_fact_encode(enum dt_frame_type type, const struct dt_fact *fact, struct dt_writer *w)
{
    size_t begin = frame_begin(w, type);

    dt_put_uint(w, fact->sequence, 8);
    dt_put_uint(w, fact->path, 1);
    dt_put_uint(w, fact->epoch, 4);
    frame_end(w, begin);
}

enum dt_status dt_fact_decode(const uint8_t *body, size_t bytes, uint32_t paths, struct dt_fact *fact)
{
    struct dt_reader r = {body, bytes, 0, false};

    fact->sequence = dt_get_uint(&r, 8);
    fact->path = (uint32_t)dt_get_uint(&r, 1);
    fact->epoch = (uint32_t)dt_get_uint(&r, 4);
    return finish(&r, fact->path < paths);
}

void dt_grant_encode(const struct dt_grant *grant, uint32_t paths, struct dt_writer *w)
{
    size_t begin = frame_begin(w, DT_FRAME_GRANT);

    dt_put_uint(w, grant->addr, 8);
    dt_put_uint(w, grant->bytes, 4);
    dt_put_uint(w, grant->path_mask, 1);
    for (uint32_t p = 0; p < paths; p++)
        dt_put_uint(w, grant->rkey[p], 4);
    frame_end(w, begin);
}

enum dt_status dt_grant_decode(const uint8_t *body, size_t bytes, uint32_t paths, struct dt_grant *grant)
{
    struct dt_reader r = {body, bytes, 0, false};

    memset(grant, 0, sizeof *grant);
    grant->addr = dt_get_uint(&r, 8);
    grant->bytes = (uint32_t)dt_get_uint(&r, 4);
    grant->path_mask = (uint32_t)dt_get_uint(&r, 1);
    for (uint32_t p = 0; p < paths; p++)
        grant->rkey[p] = (uint32_t)dt_get_uint(&r, 4);
    return finish(&r, grant->path_mask != 0 && grant->path_mask < 1u << paths && grant->bytes > 0 &&
                          grant->bytes <= DT_EAGER_BYTES_MAX && grant->addr <= UINT64_MAX / 2);
}

void dt_empty_frame_encode(enum dt_frame_type type, struct dt_writer *w)
{
    frame_end(w, frame_begin(w, type));
}

void dt_rejoin_encode(const struct dt_rejoin *rejoin, struct dt_writer *w)
{
    size_t begin = frame_begin(w, DT_FRAME_REJOIN);

    dt_put_uint(w, rejoin->connection_id, 8);
    dt_put_uint(w, rejoin->nonce, 8);
    dt_put_uint(w, rejoin->round, 4);
    dt_put_uint(w, rejoin->is_sender, 1);
    frame_end(w, begin);
}

enum dt_status dt_rejoin_decode(const uint8_t *body, size_t bytes, struct dt_rejoin *rejoin)
{
    struct dt_reader r = {body, bytes, 0, false};
    uint64_t is_sender;

    rejoin->connection_id = dt_get_uint(&r, 8);
    rejoin->nonce = dt_get_uint(&r, 8);
    rejoin->round = (uint32_t)dt_get_uint(&r, 4);
    is_sender = dt_get_uint(&r, 1);
    rejoin->is_sender = is_sender == 1;
    return finish(&r, is_sender <= 1);
}

void dt_pair_frame_encode(const struct dt_pair_frame *pair, struct dt_writer *w)
{
    size_t begin = frame_begin(w, DT_FRAME_PAIR);

    dt_put_uint(w, pair->from, 8);
    dt_put_uint(w, pair->to, 8);
    dt_put_uint(w, pair->round, 4);
    frame_end(w, begin);
}

enum dt_status dt_pair_frame_decode(const uint8_t *body, size_t bytes, struct dt_pair_frame *pair)
{
    struct dt_reader r = {body, bytes, 0, false};

    pair->from = dt_get_uint(&r, 8);
    pair->to = dt_get_uint(&r, 8);
    pair->round = (uint32_t)dt_get_uint(&r, 4);
    return finish(&r, pair->from != 0 && pair->to != 0 && pair->round != 0);
}

void dt_paired_encode(const struct dt_paired *paired, struct dt_writer *w)
{
    size_t begin = frame_begin(w, DT_FRAME_PAIRED);

    dt_put_uint(w, paired->is_accepted, 1);
    dt_put_uint(w, paired->round, 4);
    frame_end(w, begin);
}

enum dt_status dt_paired_decode(const uint8_t *body, size_t bytes, struct dt_paired *paired)
{
    struct dt_reader r = {body, bytes, 0, false};
    uint64_t is_accepted = dt_get_uint(&r, 1);

    paired->is_accepted = is_accepted == 1;
    paired->round = (uint32_t)dt_get_uint(&r, 4);
    return finish(&r, is_accepted <= 1 && paired->round != 0);
}

static bool has_offer(const struct dt_path_frame *frame)
{
    return frame->message == DT_PATH_MSG_OPEN || frame->message == DT_PATH_MSG_OPENED;
}

void dt_path_frame_encode(const struct dt_path_frame *frame, uint32_t qps, struct dt_writer *w)
{
    size_t begin = frame_begin(w, DT_FRAME_PATH);

    dt_put_uint(w, frame->message, 1);
    dt_put_uint(w, frame->path, 1);
    dt_put_uint(w, frame->epoch, 4);
    if (frame->message == DT_PATH_MSG_SWITCH)
        dt_put_uint(w, frame->is_stopped, 1);
    if (frame->message == DT_PATH_MSG_RESUME) {
        dt_put_uint(w, frame->resume.first, 8);
        dt_put_uint(w, frame->resume.later, 8);
        dt_put_bytes(w, frame->resume.eager, sizeof frame->resume.eager);
    }
    if (has_offer(frame))
        path_encode(&frame->offer, qps, w);
    frame_end(w, begin);
}

enum dt_status dt_path_frame_decode(const uint8_t *body, size_t bytes, uint32_t paths, uint32_t qps,
                                    struct dt_path_frame *frame)
{
    struct dt_reader r = {body, bytes, 0, false};
    bool is_valid;

    memset(frame, 0, sizeof *frame);
    frame->message = (uint32_t)dt_get_uint(&r, 1);
    frame->path = (uint32_t)dt_get_uint(&r, 1);
    frame->epoch = (uint32_t)dt_get_uint(&r, 4);
    is_valid =
        frame->message > DT_PATH_MSG_NONE && frame->message < DT_PATH_MESSAGE_COUNT && frame->path < paths;
    if (is_valid && frame->message == DT_PATH_MSG_SWITCH) {
        uint64_t is_stopped = dt_get_uint(&r, 1);

        frame->is_stopped = is_stopped == 1;
        is_valid = is_stopped <= 1;
    }
    if (is_valid && frame->message == DT_PATH_MSG_RESUME) {
        frame->resume.first = dt_get_uint(&r, 8);
        frame->resume.later = dt_get_uint(&r, 8);
        dt_get_bytes(&r, frame->resume.eager, sizeof frame->resume.eager);
        is_valid = !(frame->resume.later & 1); /* `first` is incomplete */
    }
    if (is_valid && has_offer(frame))
        is_valid = path_decode(&r, qps, &frame->offer) && frame->offer.is_usable;
    return finish(&r, is_valid);
}
