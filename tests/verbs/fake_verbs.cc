/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/verbs/fake_verbs.h"

#include <arpa/inet.h>
#include <endian.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

namespace fake
{
namespace
{
World *world;
std::mutex mr_mutex;

template <typename T>
T *Make(const std::string &name)
{
    if (Fails("create_" + name))
        return nullptr;
    world->log.push_back("create_" + name);
    world->live++;
    return new T();
}

int Release(const std::string &name)
{
    int error = Fails("destroy_" + name) ? errno : 0;

    world->log.push_back("destroy_" + name);
    world->live--;
    return error;
}

/* ---- devices ---- */

struct Device : ibv_device {
    DeviceScript *script;
};

ibv_device **GetDeviceList(int *count)
{
    if (Fails("get_device_list"))
        return nullptr;
    auto **list = new ibv_device *[world->devices.size() + 1]();
    for (size_t i = 0; i < world->devices.size(); i++) {
        auto *device = new Device();
        device->script = world->devices[i].get();
        snprintf(device->name, sizeof device->name, "%s", device->script->name.c_str());
        device->transport_type = device->script->transport;
        snprintf(device->ibdev_path, sizeof device->ibdev_path, "%s", device->script->ibdev_path.c_str());
        list[i] = device;
    }
    *count = static_cast<int>(world->devices.size());
    world->live++;
    return list;
}

std::vector<Device *> &Kept()
{
    static auto *kept =
        new std::vector<Device *>; // open contexts refer to their device after the list is gone
    return *kept;
}

void FreeDeviceList(ibv_device **list)
{
    for (size_t i = 0; list[i]; i++)
        Kept().push_back(static_cast<Device *>(list[i]));
    delete[] list;
    world->live--;
}

const char *GetDeviceName(ibv_device *device)
{
    return device->name;
}

__be64 GetDeviceGuid(ibv_device *device)
{
    return htobe64(static_cast<Device *>(device)->script->guid);
}

Context *ContextOf(ibv_context *context)
{
    return reinterpret_cast<Context *>(reinterpret_cast<char *>(context) - offsetof(verbs_context, context));
}

int QueryPortWhole(ibv_context *context, uint8_t port, ibv_port_attr *attr, size_t bytes);
ibv_td *AllocTd(ibv_context *context, ibv_td_init_attr *attr);
int DeallocTd(ibv_td *td);
ibv_pd *AllocParentDomain(ibv_context *context, ibv_parent_domain_init_attr *attr);

constexpr size_t kSpeedExAt = 52; /* of active_speed_ex in struct ibv_port_attr */

ibv_context *OpenDevice(ibv_device *device)
{
    auto *context = Make<Context>("context");
    int fds[2];

    if (!context || pipe(fds))
        return nullptr;
    context->hang_up_fd = fds[1];
    context->script = static_cast<Device *>(device)->script;
    context->context.device = device;
    context->context.async_fd = fds[0];
    context->context.ops.poll_cq = PollCq;
    context->context.ops.post_send = PostSend;
    context->context.ops.post_recv = PostRecv;
    if (world->whole_contexts) {
        context->sz = sizeof(verbs_context);
        context->context.abi_compat = reinterpret_cast<void *>(UINTPTR_MAX); /* __VERBS_ABI_IS_EXTENDED */
        context->query_port = QueryPortWhole;
        context->alloc_td = AllocTd;
        context->dealloc_td = DeallocTd;
        context->alloc_parent_domain = AllocParentDomain;
    }
    return &context->context;
}

int CloseDevice(ibv_context *context)
{
    close(context->async_fd);
    if (ContextOf(context)->hang_up_fd >= 0)
        close(ContextOf(context)->hang_up_fd);
    delete ContextOf(context);
    return Release("context");
}

int QueryDevice(ibv_context *context, ibv_device_attr *attr)
{
    if (Fails("query_device"))
        return errno;
    memset(attr, 0, sizeof *attr);
    attr->phys_port_cnt = static_cast<uint8_t>(ContextOf(context)->script->ports.size());
    attr->sys_image_guid = htobe64(ContextOf(context)->script->image_guid);
    attr->vendor_id = ContextOf(context)->script->vendor_id;
    attr->max_qp_wr = 4096;
    attr->max_cqe = 65536;
    attr->max_qp = 1000;
    attr->max_mr = 2000;
    attr->max_qp_rd_atom = 16;
    attr->max_mr_size = 1ull << 40;
    return 0;
}

int QueryPortWhole(ibv_context *context, uint8_t port, ibv_port_attr *attr, size_t bytes)
{
    if (Fails("query_port"))
        return errno;
    const Port &script = ContextOf(context)->script->ports.at(port - 1u);
    attr->state = script.state;
    attr->active_mtu = script.mtu;
    attr->gid_tbl_len = static_cast<int>(script.gids.size());
    attr->pkey_tbl_len = static_cast<uint16_t>(script.pkeys.size());
    attr->lid = script.lid;
    attr->active_width = script.width;
    attr->active_speed = script.speed;
    attr->link_layer = script.link_layer;
    attr->flags = script.flags;
    if (script.speed_ex && bytes >= kSpeedExAt + sizeof script.speed_ex)
        memcpy(reinterpret_cast<uint8_t *>(attr) + kSpeedExAt, &script.speed_ex, sizeof script.speed_ex);
    return 0;
}

int QueryPort(ibv_context *context, uint8_t port, _compat_ibv_port_attr *attr)
{
    return QueryPortWhole(context, port, reinterpret_cast<ibv_port_attr *>(attr), 0);
}

int QueryGid(ibv_context *context, uint8_t port, int index, ibv_gid *gid)
{
    if (Fails("query_gid"))
        return -1;
    memcpy(gid->raw, ContextOf(context)->script->ports.at(port - 1u).gids.at(static_cast<size_t>(index)).raw,
           16);
    return 0;
}

int QueryPkey(ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    if (Fails("query_pkey"))
        return -1;
    *pkey = htobe16(ContextOf(context)->script->ports.at(port - 1u).pkeys.at(static_cast<size_t>(index)));
    return 0;
}

int QueryGidEx(ibv_context *context, uint32_t port, uint32_t index, ibv_gid_entry *entry, uint32_t, size_t)
{
    if (Fails("query_gid_ex"))
        return errno;
    const Gid &gid = ContextOf(context)->script->ports.at(port - 1).gids.at(index);
    memcpy(entry->gid.raw, gid.raw, 16);
    entry->gid_type = gid.type;
    return 0;
}

int GetAsyncEvent(ibv_context *, ibv_async_event *event)
{
    if (Fails("get_async_event"))
        return -1;
    if (world->events.empty()) {
        errno = EAGAIN;
        return -1;
    }
    *event = world->events.front();
    world->events.pop_front();
    world->events_unacknowledged++;
    return 0;
}

void AckAsyncEvent(ibv_async_event *)
{
    world->events_unacknowledged--;
}

const char *EventTypeStr(ibv_event_type)
{
    return "an event";
}

/* ---- objects ---- */

ibv_pd *AllocPd(ibv_context *context)
{
    auto *pd = Make<ibv_pd>("pd");

    if (pd)
        pd->context = context;
    return pd;
}

int DeallocPd(ibv_pd *pd)
{
    delete pd;
    return Release("pd");
}

ibv_td *AllocTd(ibv_context *context, ibv_td_init_attr *)
{
    auto *td = Make<ibv_td>("td");

    if (td)
        td->context = context;
    return td;
}

int DeallocTd(ibv_td *td)
{
    delete td;
    return Release("td");
}

ibv_pd *AllocParentDomain(ibv_context *context, ibv_parent_domain_init_attr *attr)
{
    if (!attr->td || !attr->pd || Fails("alloc_parent_domain"))
        return nullptr;
    world->domains++;
    return AllocPd(context);
}

ibv_mr *RegMr(ibv_pd *pd, void *addr, size_t bytes, int access)
{
    std::lock_guard<std::mutex> lock(mr_mutex);
    auto *mr = Make<Mr>("mr");

    if (!mr)
        return nullptr;
    mr->pd = pd;
    mr->addr = addr;
    mr->length = bytes;
    mr->access = access;
    mr->lkey = mr->rkey = world->next_number++;
    world->mrs[mr->rkey] = mr;
    return mr;
}

ibv_mr *RegMrIova2(ibv_pd *pd, void *addr, size_t bytes, uint64_t iova, unsigned access)
{
    ibv_mr *mr = RegMr(pd, addr, bytes, static_cast<int>(access));

    if (mr)
        static_cast<Mr *>(mr)->iova = iova;
    return mr;
}

ibv_mr *RegDmabufMr(ibv_pd *pd, uint64_t, size_t bytes, uint64_t iova, int fd, int access)
{
    if (fd < 0) {
        errno = world->knows_dmabuf ? EBADF : EOPNOTSUPP;
        return nullptr;
    }
    return RegMr(pd, reinterpret_cast<void *>(iova), bytes, access);
}

int DeregMr(ibv_mr *mr)
{
    std::lock_guard<std::mutex> lock(mr_mutex);

    world->mrs.erase(mr->rkey);
    delete static_cast<Mr *>(mr);
    return Release("mr");
}

ibv_cq *CreateCq(ibv_context *context, int entries, void *cq_context, ibv_comp_channel *, int)
{
    auto *cq = Make<Cq>("cq");

    if (!cq)
        return nullptr;
    cq->context = context;
    cq->cq_context = cq_context;
    cq->cqe = entries;
    return cq;
}

int DestroyCq(ibv_cq *cq)
{
    delete static_cast<Cq *>(cq);
    return Release("cq");
}

ibv_qp *CreateQp(ibv_pd *pd, ibv_qp_init_attr *attr)
{
    auto *qp = Make<Qp>("qp");

    if (!qp)
        return nullptr;
    qp->context = pd->context;
    qp->pd = pd;
    qp->send_cq = attr->send_cq;
    qp->recv_cq = attr->recv_cq;
    qp->qp_context = attr->qp_context;
    qp->qp_num = world->next_number++;
    qp->cap = attr->cap;
    qp->state = IBV_QPS_RESET;
    world->qps[qp->qp_num] = qp;
    return qp;
}

int ModifyQp(ibv_qp *ibv, ibv_qp_attr *attr, int mask)
{
    static const char *const names[] = {"reset", "init", "rtr", "rts", "sqd", "sqe", "err"};
    auto *qp = static_cast<Qp *>(ibv);

    if (Fails(std::string("modify_to_") + names[attr->qp_state]))
        return errno;
    qp->state = attr->qp_state;
    if (mask & IBV_QP_DEST_QPN)
        qp->attr.dest_qp_num = attr->dest_qp_num;
    if (mask & IBV_QP_AV)
        qp->attr.ah_attr = attr->ah_attr;
    if (mask & IBV_QP_PKEY_INDEX)
        qp->attr.pkey_index = attr->pkey_index;
    if (mask & IBV_QP_PATH_MTU)
        qp->attr.path_mtu = attr->path_mtu;
    if (mask & IBV_QP_TIMEOUT)
        qp->attr.timeout = attr->timeout;
    return 0;
}

int QueryQp(ibv_qp *ibv, ibv_qp_attr *attr, int, ibv_qp_init_attr *)
{
    if (Fails("query_qp"))
        return errno;
    attr->qp_state = static_cast<Qp *>(ibv)->state;
    return 0;
}

int DestroyQp(ibv_qp *ibv)
{
    auto *qp = static_cast<Qp *>(ibv);

    int error = Release("qp");
    if (error) { // it still exists
        world->live++;
        return error;
    }
    world->qps.erase(qp->qp_num);
    delete qp;
    return 0;
}

dt_verbs_table MakeTable()
{
    dt_verbs_table table = {};

    table.get_device_list = GetDeviceList;
    table.free_device_list = FreeDeviceList;
    table.get_device_name = GetDeviceName;
    table.get_device_guid = GetDeviceGuid;
    table.open_device = OpenDevice;
    table.close_device = CloseDevice;
    table.query_device = QueryDevice;
    table.query_port = QueryPort;
    table.query_gid = QueryGid;
    table.query_gid_ex = QueryGidEx;
    table.query_pkey = QueryPkey;
    table.get_async_event = GetAsyncEvent;
    table.ack_async_event = AckAsyncEvent;
    table.event_type_str = EventTypeStr;
    table.alloc_pd = AllocPd;
    table.dealloc_pd = DeallocPd;
    table.reg_mr = RegMr;
    table.reg_mr_iova2 = RegMrIova2;
    table.reg_dmabuf_mr = RegDmabufMr;
    table.dereg_mr = DeregMr;
    table.create_cq = CreateCq;
    table.destroy_cq = DestroyCq;
    table.create_qp = CreateQp;
    table.modify_qp = ModifyQp;
    table.query_qp = QueryQp;
    table.destroy_qp = DestroyQp;
    table.own_send_queue = OwnSendQueue;
    return table;
}
} // namespace

const dt_verbs_table *Mlx5Table()
{
    static const dt_verbs_table table = [] {
        dt_verbs_table made = MakeTable();
        made.own_send_queue = nullptr;
        made.mlx5_init_object = InitObject;
        return made;
    }();

    for (auto &device : world->devices)
        device->vendor_id = 0x02c9;
    return &table;
}

DeviceScript RoceDevice(const std::string &name, uint8_t number)
{
    Gid gid = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, number}, IBV_GID_TYPE_ROCE_V2};
    Port port;

    port.gids = {gid};
    return {name, 0x1000u + number, {port}, ""};
}

World &TheWorld()
{
    return *world;
}

void Reset()
{
    for (Device *device : Kept())
        delete device;
    Kept().clear();
    delete world;
    world = new World();
    world->devices.push_back(std::make_unique<DeviceScript>(RoceDevice("fake0", 1)));
    world->devices.push_back(std::make_unique<DeviceScript>(RoceDevice("fake1", 2)));
}

bool Fails(const std::string &name)
{
    auto it = world->failures.find(name);

    if (it == world->failures.end() || it->second.first-- > 0)
        return false;
    errno = it->second.second;
    world->failures.erase(it);
    return true;
}

void Fail(const std::string &name, int error, int before)
{
    world->failures[name] = {before, error};
}

const dt_verbs_table *Table()
{
    static const dt_verbs_table table = MakeTable();
    return &table;
}
} // namespace fake
