// How a Keyed part is written this time, decided by measured cost: a layer of the changed keys, one merged layer in
// place of all of them, or the changed pages as a new base. Layers are bounded in number and in bytes, so a restore
// reads at most one and a half times the base, from one manifest.

export interface KeyedPlanSettings {
  /** Layers above the base, at most. */
  readonly layersMax: number
  /** Layers together hold at most this share of the base's bytes… */
  readonly layersShare: number
  /** …but this much is always allowed: so little is read in a moment. */
  readonly layersBytesFree: number
  /** Pages are written when they cost at most this many times the layer: they make the layers go away. */
  readonly pagesOverLayer: number
}

export const defaultKeyedPlanSettings: KeyedPlanSettings = {
  layersMax: 8,
  layersShare: 1 / 2,
  layersBytesFree: 64 * 1024,
  pagesOverLayer: 2,
}

/** The numbers the decision rests on; bytes as stored, estimated from what the base measured. */
export interface KeyedCosts {
  /** False: nothing to build on, or too many changes to name. Then only pages will do. */
  readonly canLayer: boolean
  readonly changedKeys: number
  readonly layerBytes: number
  /** Keys changed since the base, in all layers and now; and what one layer of them would take. */
  readonly mergedKeys: number
  readonly mergedBytes: number
  readonly changedPages: number
  readonly pagesBytes: number
  readonly layersHeld: number
  readonly layersHeldBytes: number
  readonly baseBytes: number
}

export type KeyedChoice = 'unchanged' | 'layer' | 'merge' | 'pages'

export interface KeyedPlan extends KeyedCosts {
  readonly choice: KeyedChoice
  readonly why: string
}

/** @example planKeyed(costs).choice // 'layer' */
export function planKeyed(costs: KeyedCosts, settings: KeyedPlanSettings = defaultKeyedPlanSettings): KeyedPlan {
  const decide = (choice: KeyedChoice, why: string): KeyedPlan => ({ ...costs, choice, why })
  if (!costs.canLayer) return decide('pages', 'there is no base to build on, or most keys changed')
  if (costs.changedKeys === 0) return decide('unchanged', 'no key changed')
  if (costs.pagesBytes <= settings.pagesOverLayer * costs.layerBytes) {
    return decide('pages', 'the changed pages cost little more than the changed keys')
  }
  const layersBytesMax = Math.max(settings.layersBytesFree, settings.layersShare * costs.baseBytes)
  const hasRoom = costs.layersHeld < settings.layersMax
  if (hasRoom && costs.layersHeldBytes + costs.layerBytes <= layersBytesMax) {
    return decide('layer', 'the changed keys cost far less than their pages')
  }
  if (costs.mergedBytes > layersBytesMax) return decide('pages', 'the layers grew to a large share of the base')
  if (costs.pagesBytes <= settings.pagesOverLayer * costs.mergedBytes) {
    return decide('pages', 'the changed pages cost little more than merging the layers')
  }
  return decide('merge', 'there are as many layers as allowed')
}
