/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/list.h"
#include "base/ring.h"

namespace
{
struct Item {
    int value;
    dt_list node;
};

TEST(List, KeepsOrderAndAllowsRemovalWhileWalking)
{
    dt_list head;
    dt_list_init(&head);
    std::vector<Item> items(5);
    for (int i = 0; i < 5; i++) {
        items[i].value = i;
        dt_list_push_back(&head, &items[i].node);
    }
    dt_list_for_each(node, &head)
    {
        Item *item = dt_container_of(node, Item, node);
        if (item->value % 2)
            dt_list_remove(node);
    }
    for (int expected : {0, 2, 4})
        EXPECT_EQ(expected, (dt_container_of(dt_list_pop_front(&head), Item, node))->value);
    EXPECT_EQ(nullptr, dt_list_pop_front(&head));
    dt_list_remove(&items[1].node); // on no list: harmless
    EXPECT_TRUE(dt_list_is_empty(&items[1].node));
}

TEST(Ring, CountsAcrossTheWrapOfItsCounters)
{
    dt_ring ring;
    dt_ring_init(&ring, 4);
    ring.head = ring.tail = UINT32_MAX - 1;
    for (int i = 0; i < 4; i++) {
        ASSERT_EQ(4u - i, dt_ring_room(&ring));
        dt_ring_push(&ring);
    }
    EXPECT_EQ(0u, dt_ring_room(&ring));
    EXPECT_EQ(4u, dt_ring_used(&ring));
    for (unsigned slot : {2u, 3u, 0u, 1u}) {
        EXPECT_EQ(slot, dt_ring_front(&ring));
        dt_ring_pop(&ring);
    }
    EXPECT_EQ(0u, dt_ring_used(&ring));
}

TEST(Ring, HandsDataFromOneThreadToAnother)
{
    const int count = 100000;
    std::vector<int> slots(64);
    dt_ring ring;
    dt_ring_init(&ring, 64);
    std::thread producer([&] {
        for (int i = 0; i < count; i++) {
            while (!dt_ring_room(&ring))
                std::this_thread::yield();
            slots[dt_ring_back(&ring)] = i;
            dt_ring_push(&ring);
        }
    });
    for (int i = 0; i < count; i++) {
        while (!dt_ring_used(&ring))
            std::this_thread::yield();
        ASSERT_EQ(i, slots[dt_ring_front(&ring)]);
        dt_ring_pop(&ring);
    }
    producer.join();
}

TEST(Clock, DeadlinesSaturate)
{
    EXPECT_EQ(DT_NEVER_NS, dt_deadline_ns(5, DT_NEVER_NS));
    EXPECT_EQ(DT_NEVER_NS, dt_deadline_ns(DT_NEVER_NS, 1));
    EXPECT_EQ(7u, dt_deadline_ns(5, 2));
    EXPECT_EQ(5u, dt_earlier_ns(5, DT_NEVER_NS));
}
} // namespace
