//! Pages of the lists of tools, prompts and resources.

use rmcp::{
    ErrorData,
    model::{Cursor, PaginatedRequestParams},
};

/// The entries of a list from the requested cursor on, and the cursor of the next page. The error refuses a cursor that
/// does not begin a page.
pub(crate) fn page<T>(
    mut entries: Vec<T>,
    size: usize,
    params: Option<PaginatedRequestParams>,
) -> Result<(Vec<T>, Option<Cursor>), ErrorData> {
    let start = match params.and_then(|params| params.cursor) {
        None => 0,
        Some(cursor) => {
            let start = cursor.parse().ok().filter(|start: &usize| start.to_string() == *cursor);
            let begins_page =
                |start: &usize| *start > 0 && *start < entries.len() && start.is_multiple_of(size);
            start.filter(begins_page).ok_or_else(|| {
                ErrorData::invalid_params(
                    "this cursor was not given to you for this list: list again without a cursor",
                    None,
                )
            })?
        }
    };
    entries.drain(..start);
    let next = (entries.len() > size).then(|| (start + size).to_string());
    entries.truncate(size);
    Ok((entries, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(cursor: &str) -> PaginatedRequestParams {
        PaginatedRequestParams::default().with_cursor(Some(cursor.to_owned()))
    }

    #[test]
    fn pages_follow_each_other_and_the_last_one_has_no_cursor() {
        let list = || (0..5).collect::<Vec<_>>();
        let (first, next) = page(list(), 2, None).unwrap();
        assert_eq!((first, next.as_deref()), (vec![0, 1], Some("2")));
        let (second, next) = page(list(), 2, Some(at("2"))).unwrap();
        assert_eq!((second, next.as_deref()), (vec![2, 3], Some("4")));
        assert_eq!(page(list(), 2, Some(at("4"))).unwrap(), (vec![4], None));
        assert_eq!(page(list(), 5, None).unwrap(), (list(), None));
        assert_eq!(page(Vec::<u8>::new(), 1000, None).unwrap(), (Vec::new(), None));
    }

    #[test]
    fn cursors_that_begin_no_page_are_refused() {
        for odd in ["", "0", "1", "3", "02", "+2", "6", "made up", "99999999999999999999999"] {
            assert!(page((0..5).collect(), 2, Some(at(odd))).is_err(), "{odd}");
        }
    }
}
