// Nexmark: people, their auctions and bids, in the published proportions (1 : 3 : 46 of 50), and its queries as pipelines beside
// a plain evaluation in memory. Every event is a function of its number, so it is the same after every restart.
// `lib` is what `reprise/pipeline` exports: the test has it from the sources, the bench from the build.

const states = ['OR', 'ID', 'CA', 'WA', 'AZ', 'WY']
const cities = ['Portland', 'Boise', 'Palo Alto', 'Seattle', 'Phoenix', 'Cheyenne']
const names = ['Ann', 'Bob', 'Cai', 'Dee', 'Eli', 'Fay']
const msPerEvent = 10
const auctionMs = 4000
/** How far back a bid or a seller may lie, so that most of what refers to something finds it. */
const recent = 20

/** 32 bits without a pattern. */
function mix(n, salt) {
  let hash = Math.imul(n + 1, 0x9e3779b1) ^ Math.imul(salt + 1, 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 15), 0xc2b2ae35)
  return (hash ^ (hash >>> 13)) >>> 0
}

const back = (newest, n, salt) => Math.max(0, newest - (mix(n, salt) % recent))

export function event(n) {
  const at = 1_000_000 + n * msPerEvent
  const round = Math.floor(n / 50)
  const place = n % 50
  if (place === 0) {
    const pick = mix(n, 1)
    const [state, city] = [states[pick % 6], cities[pick % 6]]
    return { kind: 'person', id: round, name: names[mix(n, 2) % 6], city, state, at }
  }
  if (place < 4) {
    const id = round * 3 + place - 1
    return {
      kind: 'auction',
      id,
      seller: back(round, n, 3),
      category: 10 + (mix(n, 4) % 5),
      expires: at + auctionMs + id,
      at,
    }
  }
  const newest = round * 3 + 2
  return { kind: 'bid', auction: back(newest, n, 5), bidder: back(round, n, 6), price: 100 + (mix(n, 7) % 10_000), at }
}

export function events(count) {
  return Array.from({ length: count }, (_, n) => event(n))
}

const isPerson = (each) => each.kind === 'person'
const isAuction = (each) => each.kind === 'auction'
const isBid = (each) => each.kind === 'bid'
const isLocal = ({ state }) => state === 'OR' || state === 'ID' || state === 'CA'
const suggested = (person, auction) => ({
  name: person.name,
  city: person.city,
  state: person.state,
  auction: auction.id,
})
const mean = (all) => all.reduce((sum, price) => sum + price, 0) / all.length
const side = (auction) => `side-${auction % 100}`

/** Auctions that are over, each with its highest bid. */
function winning(lib, all) {
  return all
    .filter((each) => !isPerson(each))
    .keyBy((each) => (isAuction(each) ? each.id : each.auction))
    .process('winning', {
      emits: lib.carries(),
      state: { auction: lib.valueState(), highest: lib.valueState() },
      onRecord(each, { state, setTimer }) {
        if (isAuction(each)) {
          state.auction.set(each)
          setTimer(each.expires)
          return
        }
        const auction = state.auction.get()
        if (!auction || each.at < auction.at || each.at >= auction.expires) return
        if (each.price > (state.highest.get() ?? 0)) state.highest.set(each.price)
      },
      onTimer(_, { state, emit }) {
        const { id, seller, category, expires } = state.auction.get()
        const price = state.highest.get()
        if (price !== undefined) emit({ id, seller, category, expires, price })
        state.auction.clear()
        state.highest.clear()
      },
    })
}

function plainWinning(all) {
  const open = new Map()
  for (const each of all) {
    if (isAuction(each)) open.set(each.id, { auction: each, price: 0 })
    else if (isBid(each)) {
      const held = open.get(each.auction)
      if (!held || each.at < held.auction.at || each.at >= held.auction.expires) continue
      if (each.price > held.price) held.price = each.price
    }
  }
  return [...open.values()]
    .filter(({ price }) => price > 0)
    .sort((a, b) => a.auction.expires - b.auction.expires)
    .map(({ auction: { id, seller, category, expires }, price }) => ({ id, seller, category, expires, price }))
}

function lastTen(prices, price) {
  return [...prices, price].slice(-10)
}

function grouped(all, keyOf) {
  const groups = new Map()
  for (const each of all) {
    const key = keyOf(each)
    const group = groups.get(key)
    if (group) group.push(each)
    else groups.set(key, [each])
  }
  return groups
}

/** By query: how it is drawn from the stream of all events, and what a plain evaluation of all events gives. */
export const queries = {
  q0: {
    draw: (_, all) => all.filter(isBid),
    plain: (all) => all.filter(isBid),
  },
  q1: {
    draw: (_, all) => all.filter(isBid).map((bid) => ({ ...bid, price: bid.price * 0.908 })),
    plain: (all) => all.filter(isBid).map((bid) => ({ ...bid, price: bid.price * 0.908 })),
  },
  q2: {
    draw: (_, all) =>
      all.filter((each) => isBid(each) && each.auction % 7 === 0).map(({ auction, price }) => ({ auction, price })),
    plain: (all) =>
      all.filter((each) => isBid(each) && each.auction % 7 === 0).map(({ auction, price }) => ({ auction, price })),
  },
  q3: {
    draw: (lib, all) =>
      all
        .filter((each) => (isPerson(each) && isLocal(each)) || (isAuction(each) && each.category === 10))
        .keyBy((each) => (isPerson(each) ? each.id : each.seller))
        .process('suggested', {
          emits: lib.carries(),
          state: { person: lib.valueState(), waiting: lib.listState() },
          onRecord(each, { state, emit }) {
            const person = state.person.get()
            if (isAuction(each)) return person ? emit(suggested(person, each)) : state.waiting.add(each)
            state.person.set(each)
            for (const auction of state.waiting.get()) emit(suggested(each, auction))
            state.waiting.clear()
          },
        }),
    plain(all) {
      const people = new Map(all.filter((each) => isPerson(each) && isLocal(each)).map((each) => [each.id, each]))
      const auctions = all.filter((each) => isAuction(each) && each.category === 10 && people.has(each.seller))
      return auctions.map((auction) => suggested(people.get(auction.seller), auction))
    },
  },
  q4: {
    draw: (lib, all) =>
      winning(lib, all)
        .keyBy(({ category }) => category)
        .aggregate(
          'average',
          lib.average(({ price }) => price),
        ),
    /** A running average: the last one of each category is compared. */
    last: ({ key }) => key,
    plain: (all) =>
      [...grouped(plainWinning(all), ({ category }) => category)].map(([key, own]) => ({
        key,
        value: mean(own.map(({ price }) => price)),
      })),
  },
  q5: {
    draw: (lib, all) =>
      all
        .filter(isBid)
        .keyBy(({ auction }) => auction)
        .window('counts', lib.sliding('10s', '2s'))
        .aggregate(lib.count())
        .keyBy(({ end }) => end)
        .window('hottest', lib.tumbling('2s'))
        .aggregate(lib.list())
        .flatMap(({ key, value }) => {
          const most = Math.max(...value.map((each) => each.value))
          return value
            .filter((each) => each.value === most)
            .map((each) => ({ end: key, auction: each.key, bids: most }))
        }),
    plain(all) {
      const windows = new Map()
      for (const { auction, at } of all.filter(isBid)) {
        for (let start = Math.floor(at / 2000) * 2000; start > at - 10_000; start -= 2000) {
          const counts = windows.get(start + 10_000) ?? new Map()
          windows.set(start + 10_000, counts)
          counts.set(auction, (counts.get(auction) ?? 0) + 1)
        }
      }
      return [...windows].flatMap(([end, counts]) => {
        const most = Math.max(...counts.values())
        return [...counts].filter(([, bids]) => bids === most).map(([auction, bids]) => ({ end, auction, bids }))
      })
    },
  },
  q6: {
    draw: (lib, all) =>
      winning(lib, all)
        .keyBy(({ seller }) => seller)
        .process('last-ten', {
          emits: lib.carries(),
          state: { prices: lib.valueState() },
          onRecord({ seller, price }, { state, emit }) {
            const prices = lastTen(state.prices.get() ?? [], price)
            state.prices.set(prices)
            emit({ seller, average: mean(prices) })
          },
        }),
    plain: (all) =>
      [...grouped(plainWinning(all), ({ seller }) => seller)].flatMap(([seller, own]) => {
        let prices = []
        return own.map(({ price }) => {
          prices = lastTen(prices, price)
          return { seller, average: mean(prices) }
        })
      }),
  },
  q7: {
    draw: (lib, all) =>
      all
        .filter(isBid)
        .keyBy(() => 'all')
        .window('highest', lib.tumbling('10s'))
        .aggregate(lib.reduce((a, b) => (b.price > a.price ? b : a)))
        .map(({ value }) => value),
    plain: (all) =>
      [...grouped(all.filter(isBid), ({ at }) => Math.floor(at / 10_000)).values()].map((own) =>
        own.reduce((a, b) => (b.price > a.price ? b : a)),
      ),
  },
  q8: {
    draw(lib, all) {
      const people = all.filter(isPerson).keyBy(({ id }) => id)
      const sellers = all.filter(isAuction).keyBy(({ seller }) => seller)
      return people.joinWindow('new', sellers, lib.tumbling('10s'), (person, auction, { start }) => ({
        ...{ id: person.id, name: person.name, start, auction: auction.id },
      }))
    },
    plain(all) {
      const windowOf = ({ at }) => Math.floor(at / 10_000) * 10_000
      const people = new Map(all.filter(isPerson).map((each) => [each.id, each]))
      return all.filter(isAuction).flatMap((auction) => {
        const person = people.get(auction.seller)
        if (!person || windowOf(person) !== windowOf(auction)) return []
        return [{ id: person.id, name: person.name, start: windowOf(auction), auction: auction.id }]
      })
    },
  },
  q11: {
    draw: (lib, all) =>
      all
        .filter(isBid)
        .keyBy(({ bidder }) => bidder)
        .window('sessions', lib.session('1s'))
        .aggregate(lib.count()),
    plain: (all) =>
      [...grouped(all.filter(isBid), ({ bidder }) => bidder)].flatMap(([key, own]) => {
        const sessions = []
        for (const { at } of own) {
          const last = sessions.at(-1)
          if (last && at < last.end) Object.assign(last, { end: at + 1000, value: last.value + 1 })
          else sessions.push({ key, start: at, end: at + 1000, value: 1 })
        }
        return sessions
      }),
  },
  /** Windows by the clock: how many there are depends on it, the sum of each bidder does not. */
  q12: {
    draw: (lib, all) =>
      all
        .filter(isBid)
        .keyBy(({ bidder }) => bidder)
        .window('by-the-clock', lib.tumbling(10))
        .aggregate(lib.count()),
    time: () => Date.now(),
    sums: ({ key, value }) => [key, value],
    plain: (all) =>
      [...grouped(all.filter(isBid), ({ bidder }) => bidder)].map(([key, own]) => ({ key, value: own.length })),
  },
  q13: {
    draw: (_, all) =>
      all
        .filter(isBid)
        .call('side', async (bid) => ({ ...bid, side: side(bid.auction) }), { concurrency: 8, ordered: true }),
    plain: (all) => all.filter(isBid).map((bid) => ({ ...bid, side: side(bid.auction) })),
  },
}
