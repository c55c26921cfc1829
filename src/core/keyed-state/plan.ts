// Decides by measured cost how a Keyed part is written: as a layer of the changed keys, as one merged layer that replaces
// all layers, or as the changed pages of a new base. The number and the bytes of layers are bounded, so a restore reads at
// most one and a half times the base, from one manifest.

export interface KeyedPlanSettings {
  /** Maximum number of layers above the base. */
  readonly layersMax: number
  /** All layers together hold at most this share of the base's bytes… */
  readonly layersShare: number
  /** …but this many bytes are always allowed: they are read quickly. */
  readonly layersBytesFree: number
  /** Pages are written if they cost at most this many times the layer: they remove all layers. */
  readonly pagesOverLayer: number
}

export const defaultKeyedPlanSettings: KeyedPlanSettings = {
  layersMax: 8,
  layersShare: 1 / 2,
  layersBytesFree: 64 * 1024,
  pagesOverLayer: 2,
}

/** The input of the decision; bytes as stored, estimated from measurements of the base. */
export interface KeyedCosts {
  /** False: there is no base, or too many changes to list. Then only pages are possible. */
  readonly canLayer: boolean
  readonly changedKeys: number
  readonly layerBytes: number
  /** Keys changed since the base, in all layers and now; and the size of one layer with all of them. */
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
  if (!costs.canLayer) return decide('pages', 'there is no base, or most keys changed')
  if (costs.changedKeys === 0) return decide('unchanged', 'no key changed')
  if (costs.pagesBytes <= settings.pagesOverLayer * costs.layerBytes) {
    return decide('pages', 'the changed pages cost little more than the changed keys')
  }
  const layersBytesMax = Math.max(settings.layersBytesFree, settings.layersShare * costs.baseBytes)
  const hasRoom = costs.layersHeld < settings.layersMax
  if (hasRoom && costs.layersHeldBytes + costs.layerBytes <= layersBytesMax) {
    return decide('layer', 'the changed keys cost far less than their pages')
  }
  if (costs.mergedBytes > layersBytesMax) return decide('pages', 'the layers have grown to a large share of the base')
  if (costs.pagesBytes <= settings.pagesOverLayer * costs.mergedBytes) {
    return decide('pages', 'the changed pages cost little more than merging the layers')
  }
  return decide('merge', 'there are as many layers as allowed')
}
