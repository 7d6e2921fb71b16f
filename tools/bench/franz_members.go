// Consumer groups of many franz-go clients in one process, by the same lines as those of members.c: each member is a whole
// client, which looks for metadata, has its connections and fetches.
//
//	franz_members ADDRESS PORT SESSION_MS HEARTBEAT_MS
//
//	join GROUP classic|consumer MEMBERS TOPIC PARTITIONS   all members of a new group at once
//	leave GROUP                                            one member leaves
//
// Once a group has settled after that, a line of JSON says so on stdout. The end of stdin has all members leave, and ends
// it. In the classic protocol the assignor is cooperative-sticky, which is what franz-go has unless told otherwise; in the
// other it is the broker's uniform.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	look         = 5 * time.Millisecond // how often it is asked whether a group has settled
	patience     = 300 * time.Second    // for that
	heartbeatKey = 12
	consumerKey  = 68 // ConsumerGroupHeartbeat
)

func die(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "franz_members: "+format+"\n", args...)
	os.Exit(1)
}

// group is what its members own, as they are told it.
type group struct {
	name, topic string
	members     []*member

	mutex    sync.Mutex
	owners   []int // of each partition, how many members think that it is theirs
	once     int   // partitions of exactly one
	changed  time.Time
	overlaps int // partitions that came to a second member while the first had them
	fenced   int // members that were told that they are none

	requests     atomic.Int64
	heartbeatMax atomic.Int64 // the slowest answer, in ns
}

type member struct {
	group  *group
	client *kgo.Client
	owned  int
	left   bool
}

// own is called with partitions that the member has from now on (by 1), or has not any more (by -1).
func (m *member) own(places map[string][]int32, by int) {
	g := m.group
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for _, partition := range places[g.topic] {
		owners := &g.owners[partition]
		if *owners == 1 {
			g.once--
		}
		*owners += by
		if *owners == 1 {
			g.once++
		}
		if by > 0 && *owners == 2 {
			g.overlaps++
		}
		m.owned += by
		g.changed = time.Now()
	}
}

// OnBrokerE2E is called for each request that was answered.
func (m *member) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	m.group.requests.Add(1)
	if key != heartbeatKey && key != consumerKey {
		return
	}
	took := int64(e2e.DurationE2E())
	for before := m.group.heartbeatMax.Load(); took > before && !m.group.heartbeatMax.CompareAndSwap(before, took); {
		before = m.group.heartbeatMax.Load()
	}
}

// poll is what an application does: it waits for records, of which there are none.
func (m *member) poll() {
	for {
		fetches := m.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(_ string, partition int32, err error) {
			var session *kgo.ErrGroupSession // it was fenced, which is counted, and comes again
			if !errors.As(err, &session) {
				die("%s: partition %d: %v", m.group.name, partition, err)
			}
		})
	}
}

func (m *member) start(options []kgo.Opt) {
	told := func(by int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, places map[string][]int32) { m.own(places, by) }
	}
	client, err := kgo.NewClient(append(options, kgo.WithHooks(m),
		kgo.OnPartitionsAssigned(told(1)), kgo.OnPartitionsRevoked(told(-1)),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, places map[string][]int32) {
			m.own(places, -1)
			m.group.mutex.Lock()
			m.group.fenced++
			m.group.mutex.Unlock()
		}))...)
	if err != nil {
		die("%v", err)
	}
	m.client = client
	go m.poll()
}

// shares are the fewest and the most partitions of a member that has not left, and those of all; the mutex is held.
func (g *group) shares() (least, most, all int) {
	least = math.MaxInt
	for _, m := range g.members {
		if !m.left {
			least, most, all = min(least, m.owned), max(most, m.owned), all+m.owned
		}
	}
	return least, most, all
}

// generation is that of all members; false if they are of several, or not all of them have what they are to have.
func (g *group) generation() (int32, bool) {
	g.mutex.Lock()
	least, most, all := g.shares()
	owned := g.once == len(g.owners) && all == g.once && most-least <= 1
	g.mutex.Unlock()
	if !owned {
		return 0, false
	}
	first := int32(-1)
	for _, m := range g.members {
		if m.left {
			continue
		}
		if _, generation := m.client.GroupMetadata(); first == -1 {
			first = generation
		} else if generation != first {
			return 0, false
		}
	}
	return first, first > 0
}

// measure tells how long it was until the group had settled after what act does.
func (g *group) measure(event string, act func()) {
	began := time.Now()
	g.mutex.Lock()
	g.changed, g.overlaps, g.fenced = began, 0, 0
	g.mutex.Unlock()
	g.requests.Store(0)
	g.heartbeatMax.Store(0)
	act()
	generation, settled := g.generation()
	for ; !settled; generation, settled = g.generation() {
		if time.Since(began) > patience {
			g.mutex.Lock()
			least, most, _ := g.shares()
			die("%s %s: %d of %d partitions owned once, from %d to %d a member", g.name, event, g.once, len(g.owners), least, most)
		}
		time.Sleep(look)
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	least, most, _ := g.shares()
	milliseconds := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	line, err := json.Marshal(map[string]any{"group": g.name, "event": event,
		"assigned_ms": milliseconds(g.changed.Sub(began)), "settled_ms": milliseconds(time.Since(began)),
		"epoch": generation, "least": least, "most": most, "overlaps": g.overlaps, "fenced": g.fenced,
		"requests": g.requests.Load(), "heartbeat_max_ms": milliseconds(time.Duration(g.heartbeatMax.Load()))})
	if err != nil {
		die("%v", err)
	}
	fmt.Println(string(line))
}

// program is the arguments, and the groups so far.
type program struct {
	bootstrap          string
	session, heartbeat time.Duration
	groups             map[string]*group
}

func (p *program) join(name, protocol string, members int, topic string, partitions int) {
	ctx, balancer := context.Background(), kgo.CooperativeStickyBalancer()
	if protocol == "consumer" {
		// It takes the new protocol only for who opts in by a value of the context, with an assignor that brokers have.
		ctx, balancer = context.WithValue(ctx, "opt_in_kafka_next_gen_balancer_beta", true), kgo.StickyBalancer() //nolint:staticcheck
	}
	options := []kgo.Opt{kgo.WithContext(ctx), kgo.SeedBrokers(p.bootstrap), kgo.ConsumerGroup(name), kgo.ConsumeTopics(topic),
		kgo.Balancers(balancer), kgo.SessionTimeout(p.session), kgo.HeartbeatInterval(p.heartbeat)}
	g := &group{name: name, topic: topic, owners: make([]int, partitions)}
	p.groups[name] = g
	for range members {
		g.members = append(g.members, &member{group: g})
	}
	g.measure("join", func() {
		for _, m := range g.members {
			m.start(options[:len(options):len(options)])
		}
	})
}

// leave has one go that was neither the first nor the last to come.
func (p *program) leave(name string) {
	g := p.groups[name]
	m := g.members[len(g.members)/2]
	g.measure("leave", func() {
		g.mutex.Lock()
		m.left = true
		g.mutex.Unlock()
		go m.client.Close()
	})
}

// end has all leave.
func (p *program) end() {
	var all sync.WaitGroup
	for _, g := range p.groups {
		for _, m := range g.members {
			all.Go(m.client.Close)
		}
	}
	all.Wait()
}

func number(word string) int {
	value, err := strconv.Atoi(word)
	if err != nil || value < 1 {
		die("not a number: %s", word)
	}
	return value
}

func main() {
	if len(os.Args) != 5 {
		die("usage: franz_members ADDRESS PORT SESSION_MS HEARTBEAT_MS")
	}
	p := &program{bootstrap: os.Args[1] + ":" + os.Args[2], session: time.Duration(number(os.Args[3])) * time.Millisecond,
		heartbeat: time.Duration(number(os.Args[4])) * time.Millisecond, groups: map[string]*group{}}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		words := strings.Fields(commands.Text())
		switch {
		case len(words) == 6 && words[0] == "join" && p.groups[words[1]] == nil:
			p.join(words[1], words[2], number(words[3]), words[4], number(words[5]))
		case len(words) == 2 && words[0] == "leave" && p.groups[words[1]] != nil:
			p.leave(words[1])
		default:
			die("no such command, or no such group: %s", commands.Text())
		}
	}
	p.end()
}
