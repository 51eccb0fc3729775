// SPDX-License-Identifier: Apache-2.0
#include "transport/message/registration.h"

#include <unistd.h>

#include <condition_variable>
#include <mutex>

#include "softrnic/softrnic.h"
#include "tests/transport/message/ends.h"
#include "transport/path/nic.h"
#include "verbs/fault.h"

namespace
{
/* The control thread of a device that answers nothing until Answer(). */
struct Hang {
    dt_task task = {};
    std::mutex mutex;
    std::condition_variable changed;
    bool answers = false, ended = false;

    static void Run(dt_task *task)
    {
        Hang *hang = dt_container_of(task, Hang, task);
        std::unique_lock<std::mutex> lock(hang->mutex);
        hang->changed.wait(lock, [&] { return hang->answers; });
        hang->ended = true;
        hang->changed.notify_all();
    }
    void Answer()
    {
        std::unique_lock<std::mutex> lock(mutex);
        answers = true;
        changed.notify_all();
        changed.wait(lock, [&] { return ended; });
    }
};

/* The device of path 1 has a control thread; that of path 0 works on the caller's. */
class Registration : public detour_test::Ends
{
  protected:
    void SetUp() override
    {
        Ends::SetUp();
        if (HasFatalFailure())
            return;
        nic = receiver->path[1].nic;
        ASSERT_NE(receiver->path[0].nic, nic);
        nic->executor.has_thread = true;
        source.addr = extra.data();
        source.bytes = extra.size();
        source.fd = -1;
        source.access = DT_MR_LOCAL_WRITE | DT_MR_REMOTE_WRITE;
        source.is_host = true;
        memory = dt_memory_create(&source);
    }
    void TearDown() override
    {
        if (memory) {
            dt_memory_deregister_all(receiver, memory);
            free(memory);
        }
        Ends::TearDown();
    }
    void Stop()
    {
        hang.task.run = Hang::Run;
        dt_nic_submit(nic, &hang.task);
    }
    /* The device's next registration fails. */
    static void RefuseOnce(dt_nic *of, uint64_t *fired)
    {
        dt_device_fault fault = {};

        fault.fired = fired;
        fault.kind = DT_DEVICE_FAULT_FAIL;
        fault.call = DT_DEVICE_CALL_REG_MR;
        fault.limit = 1;
        fault.error = EIO;
        dt_device_set_faults(of->device, &fault, 1);
    }
    static void Remove(dt_nic *of)
    {
        ASSERT_EQ(0, dt_soft_device_control(of->name, DT_SOFT_CONTROL_FATAL, 0));
    }
    /* It is back, and opened again. */
    static void Replace(dt_nic *of)
    {
        dt_device *next = nullptr;
        ASSERT_EQ(0, dt_soft_device_control(of->name, DT_SOFT_CONTROL_PLUG, 0));
        ASSERT_EQ(DT_OK, dt_device_reopen(of->device, &next));
        dt_store_release(&of->device, next);
    }
    static bool HasHeld(dt_nic *of)
    {
        pthread_mutex_lock(&of->executor.mutex);
        bool has_held = !dt_list_is_empty(&of->held);
        pthread_mutex_unlock(&of->executor.mutex);
        return has_held;
    }
    bool Arrives(uint32_t mask)
    {
        return Until([&] {
            return dt_load_acquire(&memory->path_mask) == mask && dt_load_acquire(&nic->late_tasks) == 0;
        });
    }

    dt_nic *nic = nullptr;
    dt_memory_source source = {};
    std::vector<uint8_t> extra = std::vector<uint8_t>(8192);
    dt_memory *memory = nullptr;
    uint32_t missing = 0;
    Hang hang;
};

TEST_F(Registration, OnAControlThreadIsAsGoodAsDirectly)
{
    ASSERT_EQ(DT_OK, dt_memory_register_all(receiver, &source, memory, &missing));
    EXPECT_EQ(3u, memory->path_mask);
    EXPECT_EQ(0u, memory->late_mask);
    EXPECT_EQ(nullptr, memory->late[1]);
    EXPECT_EQ(0u, missing);
    dt_memory_deregister_all(receiver, memory);
    EXPECT_EQ(0u, nic->late_tasks);
}

TEST_F(Registration, ThatIsLateDelaysNoOtherDevice)
{
    Stop();
    ASSERT_EQ(DT_OK, dt_memory_register_all(receiver, &source, memory, &missing));
    EXPECT_EQ(1u, memory->path_mask);
    EXPECT_EQ(2u, memory->late_mask);
    EXPECT_EQ(0u, missing) << "late is not refused";
    EXPECT_EQ(1u, nic->late_tasks);
    hang.Answer();
    EXPECT_TRUE(Arrives(3)) << "the mask grows";
    EXPECT_NE(nullptr, memory->mr[1]);
    EXPECT_EQ(0u, memory->late_mask);
}

TEST_F(Registration, BehindALateOneIsNotWaitedFor)
{
    Stop();
    ASSERT_EQ(DT_OK, dt_memory_register_all(receiver, &source, memory, &missing));
    std::vector<dt_memory *> more;
    for (int i = 0; i < 20; i++) {
        more.push_back(dt_memory_create(&source));
        ASSERT_EQ(DT_OK, dt_memory_register_all(receiver, &source, more.back(), &missing));
    }
    EXPECT_EQ(21u, nic->late_tasks);
    hang.Answer();
    EXPECT_TRUE(Arrives(3));
    for (dt_memory *one : more) {
        EXPECT_EQ(3u, dt_load_acquire(&one->path_mask));
        dt_memory_deregister_all(receiver, one);
        free(one);
    }
}

/* As where the device hangs while it registers the path's control memory. */
TEST_F(Registration, AlsoWaitsForADeviceWhosePathIsNotSetUpYet)
{
    Stop();
    ASSERT_EQ(DT_OK, dt_memory_register_all(receiver, &source, memory, &missing)); // it is late from here on
    dt_mr *control_mr = receiver->path[1].control_mr;
    dt_memory *second = dt_memory_create(&source);
    receiver->path[1].control_mr = nullptr;
    ASSERT_EQ(DT_OK, dt_memory_register_all(receiver, &source, second, &missing));
    receiver->path[1].control_mr = control_mr;
    EXPECT_EQ(1u, second->path_mask);
    EXPECT_EQ(2u, second->late_mask);
    hang.Answer();
    EXPECT_TRUE(Arrives(3));
    EXPECT_EQ(3u, dt_load_acquire(&second->path_mask));
    dt_memory_deregister_all(receiver, second);
    free(second);
}

TEST_F(Registration, OfMemoryThatIsGoneIsGivenBack)
{
    Stop();
    ASSERT_EQ(DT_OK, dt_memory_register_all(receiver, &source, memory, &missing));
    dt_memory_deregister_all(receiver, memory);
    free(memory);
    memory = nullptr;
    hang.Answer();
    EXPECT_TRUE(Until([&] { return dt_load_acquire(&nic->late_tasks) == 0; }));
}

TEST_F(Registration, OfMemoryThatIsGoneIsNotBegun)
{
    uint64_t registered = 0;
    Stop();
    ASSERT_EQ(DT_OK, dt_memory_register_all(receiver, &source, memory, &missing));
    RefuseOnce(nic, &registered);
    dt_memory_deregister_all(receiver, memory);
    free(memory);
    memory = nullptr;
    hang.Answer();
    EXPECT_TRUE(Until([&] { return dt_load_acquire(&nic->late_tasks) == 0; }));
    EXPECT_EQ(0u, registered);
    dt_device_set_faults(nic->device, nullptr, 0);
}

TEST_F(Registration, ADeregistrationIsNotWaitedForEither)
{
    ASSERT_EQ(DT_OK, dt_memory_register_all(receiver, &source, memory, &missing));
    Stop();
    dt_memory_deregister_all(receiver, memory);
    EXPECT_TRUE(memory->is_deregistered);
    EXPECT_EQ(1u, nic->late_tasks);
    hang.Answer();
    EXPECT_TRUE(Until([&] { return dt_load_acquire(&nic->late_tasks) == 0; }));
}

TEST_F(Registration, ThatIsRefusedLateLeavesTheMaskAsItIs)
{
    Stop();
    source.bytes = SIZE_MAX; /* no device takes it */
    source.addr = extra.data();
    dt_registration *registration = dt_registration_start(nic, &source, memory, 1);
    ASSERT_NE(nullptr, registration);
    enum dt_status status;
    dt_mr *mr;
    memory->late[1] = registration;
    memory->late_mask = 2;
    ASSERT_FALSE(dt_registration_wait(registration, 0, &status, &mr));
    detour_test::ExpectWarning("cannot register");
    hang.Answer();
    EXPECT_TRUE(Until([&] { return dt_load_acquire(&nic->late_tasks) == 0; }));
    EXPECT_EQ(0u, memory->late_mask);
    EXPECT_EQ(0u, memory->path_mask);
    EXPECT_EQ(nullptr, memory->mr[1]);
}

/* Its thread has not read the event yet. */
TEST_F(Registration, WhileTheDefaultDeviceIsBeingRemovedWaitsForItsReturn)
{
    dt_nic *first = receiver->path[0].nic;
    detour_test::AllowWarning("DEVICE_FATAL"); // at the close
    detour_test::AllowWarning("cannot go to ERR");
    Remove(first);
    ASSERT_EQ(DT_OK, dt_memory_register_all(receiver, &source, memory, &missing));
    EXPECT_EQ(2u, memory->path_mask);
    EXPECT_EQ(1u, memory->late_mask);
    EXPECT_EQ(0u, missing);
    dt_executor_run(&first->executor);
    EXPECT_TRUE(HasHeld(first)) << "it is asked once";
    Replace(first);
    dt_nic_release(first);
    dt_executor_run(&first->executor);
    EXPECT_EQ(3u, memory->path_mask);
}

/* A device that is dead is not asked, and has the memory before its paths once it is back. */
class Away : public Registration
{
  protected:
    void SetUp() override
    {
        Registration::SetUp();
        if (HasFatalFailure())
            return;
        dt_store_release(&nic->is_dead, 1u);
    }
    void TearDown() override
    {
        Return();
        Registration::TearDown();
    }
    void Return()
    {
        dt_store_release(&nic->is_dead, 0u);
        dt_nic_release(nic);
    }
};

TEST_F(Away, AnAbsentDeviceRegistersOnceItIsBack)
{
    ASSERT_EQ(DT_OK, dt_memory_register_all(receiver, &source, memory, &missing));
    EXPECT_EQ(1u, memory->path_mask);
    EXPECT_EQ(2u, memory->late_mask);
    EXPECT_EQ(0u, missing);
    EXPECT_EQ(0u, nic->late_tasks) << "nothing is under way";
    Return();
    EXPECT_TRUE(Arrives(3));
    EXPECT_NE(nullptr, memory->mr[1]);
}

TEST_F(Away, ADeviceThatIsGoneAgainBeforeItHasRegisteredDoesAtItsNextReturn)
{
    detour_test::AllowWarning("DEVICE_FATAL"); // at the close
    detour_test::AllowWarning("cannot go to ERR");
    ASSERT_EQ(DT_OK, dt_memory_register_all(receiver, &source, memory, &missing));
    Remove(nic);
    Return();
    for (int i = 0; i < 10000 && !HasHeld(nic); i++)
        usleep(1000);
    EXPECT_TRUE(HasHeld(nic));
    EXPECT_EQ(1u, dt_load_acquire(&memory->path_mask));
    EXPECT_EQ(2u, dt_load_acquire(&memory->late_mask));
    EXPECT_EQ(0u, nic->late_tasks);
    Replace(nic);
    Return();
    for (int i = 0; i < 10000 && dt_load_acquire(&memory->path_mask) != 3; i++)
        usleep(1000);
    EXPECT_EQ(3u, dt_load_acquire(&memory->path_mask));
}

TEST_F(Away, AlsoWhereThePathWasNeverSetUp)
{
    dt_mr *control_mr = receiver->path[1].control_mr;
    receiver->path[1].control_mr = nullptr;
    ASSERT_EQ(DT_OK, dt_memory_register_all(receiver, &source, memory, &missing));
    receiver->path[1].control_mr = control_mr;
    Return();
    EXPECT_TRUE(Arrives(3));
}

TEST_F(Away, WithEveryDeviceAwayTheMemoryIsTakenAllTheSame)
{
    dt_memory *none = nullptr;
    dt_store_release(&receiver->path[0].nic->is_dead, 1u);
    ASSERT_EQ(DT_OK, dt_net_register(receiver, extra.data(), extra.size(), true, &none));
    EXPECT_EQ(0u, none->path_mask);
    EXPECT_EQ(3u, none->late_mask);
    dt_store_release(&receiver->path[0].nic->is_dead, 0u);
    dt_nic_release(receiver->path[0].nic);
    dt_executor_run(&receiver->path[0].nic->executor);
    EXPECT_EQ(1u, dt_load_acquire(&none->path_mask));
    dt_net_deregister(receiver, none);
}

TEST_F(Away, WhatIsDeregisteredMeanwhileIsForgotten)
{
    ASSERT_EQ(DT_OK, dt_memory_register_all(receiver, &source, memory, &missing));
    dt_memory_deregister_all(receiver, memory);
    free(memory);
    memory = nullptr;
    EXPECT_TRUE(dt_list_is_empty(&nic->held));
}

TEST_F(Away, ARefusalOfTheReturnedDeviceConcernsThatMemoryAlone)
{
    source.bytes = SIZE_MAX; /* no device takes it */
    ASSERT_TRUE(dt_registration_hold(nic, &source, memory, 1));
    detour_test::ExpectWarning("cannot register");
    Return();
    EXPECT_TRUE(Until([&] { return dt_load_acquire(&memory->late_mask) == 0; }));
    EXPECT_EQ(nullptr, memory->mr[1]);
}

/* Messages would wait for the device that is away while the connection has a path and does not end. */
TEST_F(Away, IsNoReasonToTakeMemoryThatTheOtherDeviceRefuses)
{
    dt_memory *refused = nullptr;
    uint64_t fired = 0;
    RefuseOnce(receiver->path[0].nic, &fired);
    detour_test::ExpectWarning("cannot register");
    EXPECT_NE(DT_OK, dt_net_register(receiver, extra.data(), extra.size(), true, &refused));
    dt_device_set_faults(receiver->path[0].nic->device, nullptr, 0);
    EXPECT_EQ(1u, fired);
    EXPECT_EQ(nullptr, refused);
    EXPECT_TRUE(dt_list_is_empty(&nic->held));
}

/* The default device refuses it and the other one is late: that one adds a region later, or never. */
TEST_F(Registration, ThatIsLateKeepsMemoryThatTheDefaultDeviceRefuses)
{
    dt_memory *late = nullptr;
    uint64_t fired = 0;
    Stop();
    RefuseOnce(receiver->path[0].nic, &fired);
    detour_test::ExpectWarning("cannot register");
    ASSERT_EQ(DT_OK, dt_net_register(receiver, extra.data(), extra.size(), true, &late));
    dt_device_set_faults(receiver->path[0].nic->device, nullptr, 0);
    EXPECT_EQ(1u, fired);
    hang.Answer();
    EXPECT_TRUE(Until([&] { return dt_load_acquire(&late->path_mask) == 2; }));
    dt_net_deregister(receiver, late);
}

TEST_F(Registration, WithoutMemoryForItWorksOnTheCallersThread)
{
    detour_test_fail_alloc(0);
    ASSERT_EQ(DT_OK, dt_memory_register_all(receiver, &source, memory, &missing));
    EXPECT_EQ(3u, memory->path_mask);
    detour_test_fail_alloc(0);
    dt_memory_deregister_all(receiver, memory);
    EXPECT_TRUE(memory->is_deregistered);
}
} // namespace
